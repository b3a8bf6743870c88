// The functions are built in.
// Quotients, because they are constants to every NVRTC, and an overflow or an intrinsic is not.
#define HUGE_VAL (1.0 / 0.0)
#define HUGE_VALF (1.0F / 0.0F)
#define INFINITY (1.0F / 0.0F)
#define NAN (0.0F / 0.0F)
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LN2 0.69314718055994530942
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_SQRT2 1.41421356237309504880
