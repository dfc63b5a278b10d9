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
  Promise.reject(new Error("nobody listens"));
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
