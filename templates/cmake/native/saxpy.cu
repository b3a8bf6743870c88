#include <cuda_runtime.h>

namespace {

__global__ void saxpy_kernel(unsigned n, float a, const float *x, float *y)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = a * x[i] + y[i];
    }
}

/// Device memory that is freed when the function returns.
struct Buffer {
    float *data = nullptr;

    cudaError_t fill(const float *from, unsigned n)
    {
        const cudaError_t status = cudaMalloc(&data, n * sizeof(float));
        return status != cudaSuccess ? status : cudaMemcpy(data, from, n * sizeof(float), cudaMemcpyHostToDevice);
    }

    ~Buffer() { cudaFree(data); }
};

} // namespace

/// y = a·x + y on the first GPU. Returns a cudaError_t.
extern "C" int saxpy(unsigned n, float a, const float *x, float *y)
{
    if (n == 0) {
        return cudaSuccess; // A launch with 0 blocks is an error.
    }
    Buffer on_x, on_y;
    cudaError_t status = on_x.fill(x, n);
    if (status == cudaSuccess) {
        status = on_y.fill(y, n);
    }
    if (status == cudaSuccess) {
        saxpy_kernel<<<(n + 255) / 256, 256>>>(n, a, on_x.data, on_y.data);
        status = cudaGetLastError();
    }
    if (status == cudaSuccess) {
        status = cudaMemcpy(y, on_y.data, n * sizeof(float), cudaMemcpyDeviceToHost);
    }
    return status;
}

extern "C" const char *saxpy_error(int status)
{
    return cudaGetErrorString(static_cast<cudaError_t>(status));
}
