// SPDX-License-Identifier: Apache-2.0
//! Attention of a real sentence: tensors as safetensors both ways; prints the map of head 1, a row
//! per token.
//!
//!     cargo run --manifest-path examples/rust/Cargo.toml --target-dir build/rust -- [address]
//!
//! The address of the daemon may also stand in ATTENTION_URL.
use std::error::Error;
use tinyjson::JsonValue;

/// The float32 tensor `name` of a safetensors file: its shape and its numbers.
fn tensor(file: &[u8], name: &str) -> Result<(Vec<usize>, Vec<f32>), Box<dyn Error>> {
    let (length, rest) = file.split_at(8);
    let (header, data) = rest.split_at(u64::from_le_bytes(length.try_into()?) as usize);
    let header: JsonValue = std::str::from_utf8(header)?.parse()?;
    let sizes = |member: &str| -> Result<Vec<usize>, Box<dyn Error>> {
        let list: &Vec<JsonValue> = header[name][member].get().ok_or("a list is missing")?;
        Ok(list.iter().filter_map(|n| n.get::<f64>()).map(|n| *n as usize).collect())
    };
    let place = sizes("data_offsets")?;
    let numbers = data[place[0]..place[1]].chunks(4);
    Ok((sizes("shape")?, numbers.map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()))
}

fn run() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).or(std::env::var("ATTENTION_URL").ok())
        .unwrap_or("http://127.0.0.1:8080".into());
    let key = std::env::var("ATTENTION_KEY").unwrap_or_default(); // where the daemon asks for one
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../data/sentence.safetensors");
    if !address.starts_with("http") {
        return Err(format!("{address} is no address: ATTENTION_URL is such as http://127.0.0.1:8080").into());
    }
    let answer = minreq::post(format!("{address}/v1/attention"))
        .with_header("Content-Type", "application/vnd.safetensors")
        .with_header("Authorization", format!("Bearer {key}"))
        .with_body(std::fs::read(file)?)
        .send().map_err(|problem| format!("nothing answers at {address} ({problem}); start it with \
            `make run`, or set ATTENTION_URL"))?;
    if answer.status_code != 200 {
        let problem: JsonValue = answer.as_str()?.parse()?;
        let detail: &String = problem["detail"].get().ok_or("an answer without a sentence")?;
        return Err(detail.clone().into());
    }
    let (shape, weights) = tensor(answer.as_bytes(), "weights")?; // [heads, queries, keys]
    let (rows, columns) = (shape[1], shape[2]);
    for row in weights[rows * columns..2 * rows * columns].chunks(columns) {
        let text: Vec<String> = row.iter().map(|weight| format!("{weight:.6}")).collect();
        println!("{}", text.join(" "));
    }
    Ok(())
}

fn main() {
    if let Err(problem) = run() {
        eprintln!("no map: {problem}");
        std::process::exit(1);
    }
}
