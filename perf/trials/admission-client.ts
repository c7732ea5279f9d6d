/** A thread that sends bodies to a webhook, so that the thread of the webhook does nothing else. */
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import { text } from 'node:stream/consumers';
import { parentPort, workerData } from 'node:worker_threads';
import { BODIES, largest, NESTED, onPort, reviewOf } from '../../test/abuse/bodies.ts';

const BYTES = 8 << 20;
const agent = new Agent({ keepAlive: true, rejectUnauthorized: false });
const largestBodies = [...NESTED, ...Object.values(BODIES).map(([object]) => object)];
let body = Buffer.from(reviewOf(JSON.stringify(largest('p', onPort))));

/** Milliseconds until the answer. */
async function post(): Promise<number> {
  const began = performance.now();
  const headers = { 'content-type': 'application/json', 'content-length': body.length };
  const sent = request({
    host: '127.0.0.1',
    port: workerData,
    path: '/validate',
    method: 'POST',
    agent,
    headers,
  });
  sent.end(body);
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  await text(response);
  return performance.now() - began;
}

/** `post` sends the body, at first the largest policy; `next` goes on to the next largest body. */
parentPort?.on('message', async (order: 'post' | 'next') => {
  if (order === 'post') return parentPort?.postMessage(await post());
  const object = largestBodies.pop();
  body = Buffer.from(reviewOf(object ?? '').padEnd(BYTES));
  parentPort?.postMessage(object !== undefined);
});
