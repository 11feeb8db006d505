"""Device memory: buffers, pools, queues, and host memory that a device can use."""
