// Durable handlers for the official JavaScript SDK, as it comes.
import { withDurableExecution } from "@aws/durable-execution-sdk-js";

export const order = withDurableExecution(async (event, context) => {
  const reserved = await context.step("reserve", async () => ({ reserved: event.items }));
  await context.wait("settle", { seconds: 1 });
  const told = await context.parallel("tell", [
    async (branch) => branch.step("mail", async () => "mail"),
    async (branch) => branch.step("text", async () => "text"),
  ]);
  return { ...reserved, told: told.getResults() };
});

export const approval = withDurableExecution(async (event, context) => {
  const [answer, id] = await context.createCallback("approve");
  await context.step("ask", async () => id);
  return { answer: await answer };
});

export const fails = withDurableExecution(async (event) => {
  throw new RangeError(event);
});

export const maps = withDurableExecution(async (event, context) => {
  const made = await context.map("double", event, async (item, value, index) => item.step(`at ${index}`, async () => 2 * value), {
    maxConcurrency: 2,
  });
  return made.getResults();
});

export const tolerates = withDurableExecution(async (event, context) => {
  const made = await context.map(
    "some",
    event,
    async (item, value) =>
      item.step("one", async () => {
        if (value < 0) throw new RangeError(`no ${value}`);
        return value;
      }, { retryStrategy: () => ({ shouldRetry: false }) }),
    { completionConfig: { toleratedFailureCount: 1 } },
  );
  return { good: made.getResults(), bad: made.failureCount, why: made.completionReason };
});

export const child = withDurableExecution(async (event, context) =>
  context.runInChildContext("inside", async (inner) => {
    const first = await inner.step("first", async () => event + 1);
    await inner.wait("rest", { seconds: 2 });
    return inner.step("second", async () => first + 1);
  }),
);

export const retries = withDurableExecution(async (event, context) => {
  const attempts = await context.step(
    "flaky",
    async (step) => {
      if (step.attempt < 3) throw new Error(`not yet: ${step.attempt}`);
      return step.attempt;
    },
    { retryStrategy: (error, attempt) => ({ shouldRetry: attempt < 5, delay: { seconds: attempt } }) },
  );
  let last;
  try {
    await context.step("hopeless", async () => {
      throw new TypeError("never");
    }, { retryStrategy: (error, attempt) => ({ shouldRetry: attempt < 2, delay: { seconds: 1 } }) });
  } catch (error) {
    last = error.cause?.message ?? error.message;
  }
  return { attempts, last };
});

export const polls = withDurableExecution(async (event, context) =>
  context.waitForCondition("ready", async (state) => ({ looks: state.looks + 1 }), {
    initialState: { looks: 0 },
    waitStrategy: (state) => ({ shouldContinue: state.looks < 3, delay: { seconds: 5 } }),
  }),
);

export const asks = withDurableExecution(async (event, context) =>
  context.waitForCallback("approve", async () => undefined, { timeout: { hours: 1 } }),
);

export const invokes = withDurableExecution(async (event, context) => {
  try {
    return await context.invoke("call", event.function, event.payload);
  } catch (error) {
    return { failed: error.message };
  }
});

export const races = withDurableExecution(async (event, context) => {
  const made = await context.parallel(
    "race",
    [
      async (branch) => {
        await branch.wait("long", { days: 1 });
        return "slow";
      },
      async (branch) => branch.step("short", async () => "fast"),
    ],
    { completionConfig: { minSuccessful: 1 } },
  );
  return made.getResults();
});
