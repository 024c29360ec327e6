// node compile.js LANGUAGE SCHEMA_DIR OUT_DIR: compile every .ksy of SCHEMA_DIR; one line a file, exit 1 on an error.
const fs = require("fs");
const path = require("path");
const compiler = require("kaitai-struct-compiler");
const yaml = require("js-yaml");

const [language, schemas, out] = process.argv.slice(2);
const read = (name) => yaml.load(fs.readFileSync(path.join(schemas, `${name}.ksy`), "utf8"));

async function main() {
  for (const file of fs.readdirSync(schemas).filter((f) => f.endsWith(".ksy")).sort()) {
    const importer = { importYaml: async (name) => read(name) };
    const compiled = await compiler.compile(language, read(path.basename(file, ".ksy")), importer, false);
    for (const [name, text] of Object.entries(compiled)) fs.writeFileSync(path.join(out, name), text);
    console.log(`${file}: ${Object.keys(compiled).sort().join(" ")}`);
  }
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
