// A Lambda runtime client in plain JavaScript: asks for invocations, calls the handler, answers. Used if the function's folder has no built
// aws-lambda-ric.
//
// Run as `node node_client.mjs path/module.function` in the function's folder. It needs only Node's own library.

import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import util from "node:util";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const API = "/2018-06-01/runtime/";
const [host, port] = process.env.AWS_LAMBDA_RUNTIME_API.split(":");
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
const JSON_LOGS = process.env.AWS_LAMBDA_LOG_FORMAT === "JSON";
const LOG_LEVEL = (process.env.AWS_LAMBDA_LOG_LEVEL ?? "").toUpperCase();
const FRAMES = process.env._LAMBDA_TELEMETRY_LOG_FD;
delete process.env._LAMBDA_TELEMETRY_LOG_FD;
let current = null;

// --- speaking with the Runtime API

function ask(method, where, body, headers = {}) {
  return new Promise((resolve, reject) => {
    const sent = body === undefined ? headers : { ...headers, "Content-Type": "application/json", "Content-Length": Buffer.byteLength(body) };
    const request = http.request({ host, port, agent, method, path: API + where, headers: sent }, (answer) => {
      const parts = [];
      answer.on("data", (part) => parts.push(part));
      answer.on("end", () => resolve({ status: answer.statusCode, headers: answer.headers, body: Buffer.concat(parts) }));
      answer.on("error", reject);
    });
    request.on("error", reject);
    request.end(body);
  });
}

function described(error) {
  if (error instanceof Error) {
    return { errorType: error.name || "Error", errorMessage: error.message, trace: (error.stack || "").split("\n") };
  }
  return { errorType: typeof error, errorMessage: String(error), trace: [] };
}

async function tellError(where, error, label) {
  const told = described(error);
  const text = JSON_LOGS
    ? JSON.stringify({ timestamp: new Date().toISOString(), level: "ERROR", requestId: current ?? undefined, ...told })
    : [new Date().toISOString(), current ?? "undefined", "ERROR", label, JSON.stringify(told)].join("\t");
  record(text, "ERROR");
  const kind = told.errorType.replace(/[^\x20-\x7e]/g, "?");
  return ask("POST", where, JSON.stringify(told), { "Lambda-Runtime-Function-Error-Type": kind });
}

// --- what the handler sees

const METHODS = { log: "INFO", info: "INFO", warn: "WARN", error: "ERROR", debug: "DEBUG", trace: "TRACE", fatal: "FATAL" };
const LEVELS = ["", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"];

// Writes one log record. With the descriptor that the server names, it is a telemetry frame, so a record of several lines stays whole.
// Without the descriptor, it is one line of the standard output.
function record(text, level) {
  if (FRAMES === undefined) {
    process.stdout.write(text.replace(/\n/g, "\r") + "\n");
    return;
  }
  const said = Buffer.from(text);
  const frame = Buffer.alloc(16 + said.length);
  frame.writeUInt32BE((0xa55a0002 | (JSON_LOGS ? 0 : 1) | (LEVELS.indexOf(level) << 2)) >>> 0, 0);
  frame.writeUInt32BE(said.length, 4);
  frame.writeBigUInt64BE(BigInt(Date.now()) * 1000n, 8);
  said.copy(frame, 16);
  for (let at = 0; at < frame.length; ) at += fs.writeSync(Number(FRAMES), frame, at);
}

function serializable(_, value) {
  if (!(value instanceof Error)) return value;
  return { errorType: value.constructor?.name ?? "UnknownError", errorMessage: value.message, stackTrace: (value.stack ?? "").split("\n"), ...value };
}

function jsonRecord(at, level, said) {
  const told = { timestamp: at, level, requestId: current ?? undefined };
  const error = said.find((one) => one instanceof Error);
  if (said.length === 1) {
    try {
      return JSON.stringify({ ...told, message: said[0] }, serializable);
    } catch {
      return JSON.stringify({ ...told, message: util.format(...said) });
    }
  }
  return JSON.stringify({ ...told, message: util.format(...said), ...(error ? serializable("", error) : {}) });
}

function patchConsole() {
  for (const [method, level] of Object.entries(METHODS)) {
    console[method] = (...said) => {
      if (level !== "FATAL" && LEVELS.indexOf(level) < LEVELS.indexOf(LOG_LEVEL)) return;
      const at = new Date().toISOString();
      record(JSON_LOGS ? jsonRecord(at, level, said) : [at, current ?? "undefined", level, util.format(...said)].join("\t"), level);
    };
  }
}

function makeContext(headers) {
  const deadline = Number(headers["lambda-runtime-deadline-ms"]);
  const client = headers["lambda-runtime-client-context"];
  return {
    callbackWaitsForEmptyEventLoop: true,
    functionName: process.env.AWS_LAMBDA_FUNCTION_NAME,
    functionVersion: process.env.AWS_LAMBDA_FUNCTION_VERSION,
    memoryLimitInMB: process.env.AWS_LAMBDA_FUNCTION_MEMORY_SIZE,
    logGroupName: process.env.AWS_LAMBDA_LOG_GROUP_NAME,
    logStreamName: process.env.AWS_LAMBDA_LOG_STREAM_NAME,
    awsRequestId: headers["lambda-runtime-aws-request-id"],
    invokedFunctionArn: headers["lambda-runtime-invoked-function-arn"],
    tenantId: headers["lambda-runtime-aws-tenant-id"],
    clientContext: client ? JSON.parse(client) : undefined,
    identity: undefined,
    getRemainingTimeInMillis: () => Math.max(deadline - Date.now(), 0),
  };
}

function fault(name, message, cause) {
  const error = new Error(message, { cause });
  error.name = name;
  return error;
}

async function load(name) {
  const folder = process.env.LAMBDA_TASK_ROOT || process.cwd();
  const base = path.basename(name);
  const dot = base.indexOf(".");
  if (dot < 1) throw fault("Runtime.MalformedHandlerName", `Bad handler '${name}': it must be module.function`);
  const file = path.resolve(folder, path.dirname(name), base.slice(0, dot));
  const found = [".js", ".mjs", ".cjs"].map((ending) => file + ending).find((candidate) => fs.existsSync(candidate));
  if (found === undefined) throw fault("Runtime.ImportModuleError", `Error: Cannot find module '${base.slice(0, dot)}'`);
  let loaded;
  try {
    loaded = found.endsWith(".cjs") ? createRequire(import.meta.url)(found) : await import(pathToFileURL(found).href);
  } catch (error) {
    if (error instanceof SyntaxError) throw fault("Runtime.UserCodeSyntaxError", `SyntaxError: ${error.message}`, error);
    if (error?.code === "MODULE_NOT_FOUND") throw fault("Runtime.ImportModuleError", `Error: ${error.message}`, error);
    throw error;
  }
  const parts = base.slice(dot + 1).split(".");
  const reach = (from) => parts.reduce((inside, part) => inside?.[part], from);
  const handler = reach(loaded) ?? reach(loaded.default);
  if (typeof handler !== "function") throw fault("Runtime.HandlerNotFound", `${name} is undefined or not exported`);
  return handler;
}

function call(handler, event, context) {
  return new Promise((resolve, reject) => {
    const settle = (how) => (value) => {
      process.removeListener("beforeExit", idle);
      how(value);
    };
    let called = false;
    let kept = null;
    const first = (how) => (...given) => {
      if (called) return; // only the first answer is used
      called = true;
      how(...given);
    };
    const idle = () => settle(resolve)(kept); // the event loop is empty: the answer is what the callback got, or null
    const done = (error, value) => (error === null || error === undefined ? settle(resolve)(value) : settle(reject)(error));
    const callback = (error, value) => {
      if ((error !== null && error !== undefined) || !context.callbackWaitsForEmptyEventLoop) done(error, value);
      else kept = value;
    };
    const succeed = first((value) => done(null, value));
    const fail = first((error) => done(error ?? "handled"));
    Object.assign(context, { done: first(done), succeed, fail });
    process.once("beforeExit", idle);
    const returned = handler(event, context, first(callback));
    if (typeof returned?.then === "function") returned.then(succeed, fail); // any other returned value is ignored
  });
}

// --- the loop

async function serve(handler) {
  for (;;) {
    const asked = await ask("GET", "invocation/next");
    if (asked.status !== 200) process.exit(1);
    const { headers } = asked;
    current = headers["lambda-runtime-aws-request-id"];
    process.env._X_AMZN_TRACE_ID = headers["lambda-runtime-trace-id"] ?? "";
    const where = `invocation/${current}/`;
    try {
      const value = await call(handler, JSON.parse(asked.body.toString()), makeContext(headers));
      await ask("POST", where + "response", JSON.stringify(value === undefined ? null : value));
    } catch (error) {
      await tellError(where + "error", error, "Invoke Error");
    }
    current = null;
  }
}

async function fatal(error, name, message) {
  const told = fault(name, message, error);
  told.stack = error?.stack ?? told.stack;
  try {
    await tellError(current === null ? "init/error" : `invocation/${current}/error`, told, "Unhandled");
  } finally {
    process.exit(128);
  }
}

patchConsole();
process.on("unhandledRejection", (reason) => fatal(reason, "Runtime.UnhandledPromiseRejection", String(reason)));
process.on("uncaughtException", (error) => fatal(error, error?.name ?? "Error", error?.message ?? String(error)));

let handler;
try {
  handler = await load(process.argv[2]);
} catch (error) {
  await tellError("init/error", error, "Uncaught Exception");
  process.exit(1);
}
await serve(handler);
