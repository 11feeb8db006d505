"""Device memory: buffers, pools, queues, and host memory for in-place use."""
