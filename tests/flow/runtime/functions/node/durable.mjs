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
