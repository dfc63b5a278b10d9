// Stands in for the native part of aws-lambda-ric, which takes a compiler and autotools to build: everything else of it is as it comes.
// Preloaded with --require. What the native part does it does before it returns, so a process of its own posts while we wait.
const { spawnSync } = require("node:child_process");
const Module = require("node:module");

const POST = `
const [path, kind] = process.argv.slice(1);
const body = require("node:fs").readFileSync(0);
const headers = { "Content-Type": "application/json", "Content-Length": body.length, "Lambda-Runtime-Function-Error-Type": kind };
const [host, port] = process.env.AWS_LAMBDA_RUNTIME_API.split(":");
const asked = { host, port, method: "POST", path: "/2018-06-01/runtime/invocation/" + path, headers };
require("node:http").request(asked, (answer) => answer.resume()).end(body);
`;

function post(path, body, kind = "") {
  spawnSync(process.execPath, ["-e", POST, path, kind], { input: body });
}

const native = {
  initializeClient() {},
  done: (id, body) => post(`${id}/response`, body),
  error: (id, body) => post(`${id}/error`, body, JSON.parse(body).errorType),
};
const load = Module._load;
Module._load = (name, ...rest) => (name.endsWith("rapid-client.node") ? native : load(name, ...rest));
