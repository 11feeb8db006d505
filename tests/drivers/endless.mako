## Never ends, as nobody writes the flag. Launch: one work-item. Parameters: seeded (a word that tells the launch apart).
kernel void endless(volatile global int* flag) {
    while (*flag == 0) {}
}
