#include <cstdio>

__global__ void saxpy(int n, float a, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}

int main()
{
    const int n = 1000;
    float x[n], y[n], *on_x, *on_y;
    for (int i = 0; i < n; i++) { x[i] = i; y[i] = 1; }
    cudaMalloc(&on_x, sizeof x);
    cudaMalloc(&on_y, sizeof y);
    cudaMemcpy(on_x, x, sizeof x, cudaMemcpyDefault);
    cudaMemcpy(on_y, y, sizeof y, cudaMemcpyDefault);
    saxpy<<<(n + 255) / 256, 256>>>(n, 2, on_x, on_y);
    cudaError_t status = cudaMemcpy(y, on_y, sizeof y, cudaMemcpyDefault);
    std::printf("%s: %g\n", cudaGetErrorString(status), y[n - 1]);
    return status != cudaSuccess;
}
