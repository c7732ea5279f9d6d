/**
 * A thread of its own: an API server that has one Lease and reviews tokens, and an agent that sends
 * heartbeats, while the thread of the test computes.
 */
import { createServer } from 'node:http';
import { Agent, request } from 'node:https';
import type { AddressInfo } from 'node:net';
import { json } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { parentPort } from 'node:worker_threads';
import { AGENT_CALLS, pathOf } from '../../apis/calls.ts';
import { HEARTBEAT_PROTOCOLS } from '../../apis/heartbeat.ts';

/** Sent to the thread: heartbeats begin, or end. */
export type ToHeartbeatWorld =
  | { readonly kind: 'begin'; readonly port: number; readonly ca: string }
  | { readonly kind: 'end' };

export interface HeartbeatCounts {
  readonly granted: number;
  /** The statuses, or errors, of all others. */
  readonly others: readonly string[];
  /** Milliseconds. */
  readonly longest: number;
  /** Times that the Lease was written, and by how many holders. */
  readonly renewals: number;
  readonly holders: number;
}

const NODE = 'gw-1';
const WITHIN = 5_000;

let lease: { metadata: Record<string, unknown>; spec: { holderIdentity: string } } | null = null;
let version = 0;
let renewals = 0;
const holders = new Set<string>();

const api = createServer((asked, response) => {
  void (async () => {
    const answer = (status: number, body: object): void => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    };
    if (asked.url?.endsWith('/tokenreviews')) {
      const username = 'system:serviceaccount:nodewall-system:nodewall-agent';
      const extra = { 'authentication.kubernetes.io/node-name': [NODE] };
      return answer(201, { status: { authenticated: true, user: { username, extra } } });
    }
    if (asked.method === 'GET')
      return lease === null ? answer(404, { kind: 'Status', reason: 'NotFound' }) : answer(200, lease);
    const written = (await json(asked)) as NonNullable<typeof lease>;
    lease = { ...written, metadata: { ...written.metadata, resourceVersion: String(++version) } };
    if (written.spec.holderIdentity !== '') holders.add(written.spec.holderIdentity);
    renewals++;
    answer(200, lease);
  })();
});

function beat(port: number, ca: string, agent: Agent, sent: number): Promise<number | string> {
  return new Promise((resolve) => {
    const body = JSON.stringify({ node: NODE, boot: 'b', sent, held: [], ready: [] });
    const outgoing = request({
      host: '127.0.0.1',
      port,
      ca,
      agent,
      path: pathOf(AGENT_CALLS.lease, NODE),
      method: 'POST',
      servername: 'localhost',
      headers: { authorization: 'Bearer agent', 'content-type': 'application/json' },
      signal: AbortSignal.timeout(WITHIN),
    });
    outgoing.on('error', ({ message }) => resolve(message));
    outgoing.on('response', (response) => {
      json(response).then(
        (answer) => {
          const { grants = [] } = answer as { grants?: readonly unknown[] };
          resolve(response.statusCode === 200 ? grants.length : String(response.statusCode));
        },
        (error: Error) => resolve(error.message),
      );
    });
    outgoing.end(body);
  });
}

let isOver = false;
async function run(port: number, ca: string): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1, ALPNProtocols: [...HEARTBEAT_PROTOCOLS] });
  const others: string[] = [];
  let [granted, longest] = [0, 0];
  for (let sent = 1; !isOver; sent++) {
    const begun = performance.now();
    const answer = await beat(port, ca, agent, sent);
    longest = Math.max(longest, performance.now() - begun);
    if (typeof answer === 'number' && answer > 0) granted++;
    else others.push(String(answer));
    await sleep(100);
  }
  agent.destroy();
  const counts: HeartbeatCounts = { granted, others, longest, renewals, holders: holders.size };
  parentPort?.postMessage(counts);
}

parentPort?.on('message', (message: ToHeartbeatWorld) => {
  if (message.kind === 'end') {
    isOver = true;
    return;
  }
  renewals = 0;
  void run(message.port, message.ca);
});
api.listen(0, '127.0.0.1', () => parentPort?.postMessage((api.address() as AddressInfo).port));
