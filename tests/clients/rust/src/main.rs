// SPDX-License-Identifier: Apache-2.0
//! A Rust client of the protocol calls the service: calls http://HOST:PORT FOLDER
//! FOLDER has q, k and v, float32 [1,2,24,16]. Prints lines of a name, a tab and what came: bits as
//! hexadecimal digits, or the text of an error. The client knows numbers only, and no outputs.
use std::error::Error;
use std::path::Path;
use truston::{DataType, InferInput, TritonRestClient};

const SHAPE: [usize; 4] = [1, 2, 24, 16];

fn input(name: &str, folder: &Path) -> Result<InferInput, Box<dyn Error>> {
    let data = std::fs::read(folder.join(name))?
        .chunks(4)
        .map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()))
        .collect();
    Ok(InferInput::new(name.into(), SHAPE.to_vec(), DataType::F32(data)))
}

async fn run(address: &str, folder: &Path) -> Result<(), Box<dyn Error>> {
    let client = TritonRestClient::new(address);
    println!("live\t{}", client.is_server_live().await?);
    let inputs = ["q", "k", "v"].iter().map(|name| input(name, folder));
    let inputs = inputs.collect::<Result<Vec<_>, _>>()?;
    let results = client.infer(inputs, "attention").await?;
    let output = results.outputs.iter().find(|output| output.name == "output");
    let output = output.ok_or("no output")?;
    let numbers = output.data.as_f32_vec().ok_or("no float32")?;
    assert_eq!((output.datatype.as_str(), &output.shape[..]), ("FP32", &SHAPE[..]));
    let bits: String = numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .map(|byte| format!("{byte:02x}"))
        .collect();
    println!("numbers\t{bits}");
    let refused = client.infer(vec![input("q", folder)?], "attention").await;
    println!("error\t{}", refused.err().ok_or("no error")?.to_string().trim_end());
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(&words[1], Path::new(&words[2])))
}
