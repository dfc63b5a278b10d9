// Ordinary Lambda handlers in JavaScript.
export const echo = async (event) => event;
export const called = (event, context, callback) => setTimeout(() => callback(null, { called: event }), 1);
export const late = (event, context) => {
  setTimeout(() => context.succeed({ late: event }), 1);
};
export const nothing = (event) => {};
export const fails = async (event) => {
  throw new TypeError(`no good: ${event}`);
};
export const rejects = async () => {
  Promise.reject(new Error("no listener"));
  await new Promise((resolve) => setTimeout(resolve, 10_000));
};
export const logs = async () => {
  console.log("logged %s", "this", { answer: 42 });
  console.error("wrong");
  return null;
};
export const about = async (event, context) => ({
  request: context.awsRequestId,
  arn: context.invokedFunctionArn,
  name: context.functionName,
  left: context.getRemainingTimeInMillis(),
  client: context.clientContext?.custom,
  trace: process.env._X_AMZN_TRACE_ID,
});
export const hoards = async (event) => {
  let kept = [];
  for (let made = 0; made < (event.litter ?? 0); made++) kept = [new Array(131072).fill(made)]; // a megabyte each
  for (let had = 0; had < (event.heap ?? 0); had++) kept.push(new Array(131072).fill(had)); // a megabyte of the heap each
  if (event.heap) return kept.length;
  for (let had = 0; had < (event.mb ?? 0); had++) kept.push(Buffer.alloc(2 ** 20, 1));
  if (event.mb) await new Promise((resolve) => setTimeout(resolve, 25_000));
  return event.litter;
};
export const twice = (event, context, callback) => {
  callback(null, "first");
  context.succeed("second");
};
export const lingers = (event, context, callback) => {
  const told = ["asked"];
  callback(null, told); // answered when nothing is left to do
  setTimeout(() => told.push("done meanwhile"), 50);
};
export const hurries = (event, context, callback) => {
  context.callbackWaitsForEmptyEventLoop = false;
  const told = ["asked"];
  callback(null, told);
  setTimeout(() => told.push("too late"), 2_000);
};
export const throws = () => {
  throw new RangeError("thrown");
};
export const gives_up = (event, context) => context.fail();
export const refuses = async () => {
  throw "no";
};
export const raises_later = (event, context, callback) => {
  setTimeout(() => {
    throw new RangeError("raised later");
  }, 1);
};
export const traces = async (event) => {
  console.debug("not grave");
  console.error("it failed\nin two lines", new RangeError("first\nsecond"));
  process.stdout.write("printed after it\n");
  console.warn("logged after it");
};
