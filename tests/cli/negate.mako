## The kernel of toy_algorithm.py: y = -x. Launch: n / items work-items, rounded up. Parameters: items (elements that one
## work-item computes), wrong (added to each result, to test that wrong candidates are found).
__kernel void negate(__global const float *x, __global float *y, const long n)
{
    const long first = (long) get_global_id(0) * ${items};
    for (long i = first; i < min(first + ${items}, n); ++i) y[i] = ${wrong}.0f - x[i];
}
