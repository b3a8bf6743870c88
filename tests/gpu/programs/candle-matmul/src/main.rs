//! A product of two matrices on the first GPU, against the same on the processor.

use candle_core::{Device, Result, Tensor};

fn main() -> Result<()> {
    let a = Tensor::arange(0_f32, 24_f32, &Device::Cpu)?.reshape((4, 6))?;
    let b = Tensor::arange(0_f32, 18_f32, &Device::Cpu)?.reshape((6, 3))?;
    let gpu = Device::new_cuda(0)?;
    // cuBLAS, and a kernel of candle's own.
    let product = a
        .to_device(&gpu)?
        .matmul(&b.to_device(&gpu)?)?
        .affine(2.0, 1.0)?;
    let here = a.matmul(&b)?.affine(2.0, 1.0)?;
    let difference = (product.to_device(&Device::Cpu)? - &here)?
        .abs()?
        .max_all()?
        .to_scalar::<f32>()?;
    println!("largest difference between GPU and processor: {difference}");
    println!("{:?}", here.to_vec2::<f32>()?);
    Ok(())
}
