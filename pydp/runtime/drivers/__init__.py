"""Discovery, selection and checks of drivers and devices."""
