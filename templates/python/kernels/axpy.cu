/// y[i] = a * x[i] + y[i]
extern "C" __global__ void axpy(unsigned n, float a, const float *x, float *y)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = a * x[i] + y[i];
    }
}
