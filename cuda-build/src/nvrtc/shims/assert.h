// `assert` is built in and calls the device's own. As everywhere, each inclusion reads `NDEBUG`
// anew; without it the built-in definition is left alone.
#ifdef NDEBUG
#undef assert
#define assert(condition) ((void)0)
#endif
