/**
 * Changes objects of a real API server and looks with real connections when the kernels of all
 * nodes enforce it. Runs in the namespace of a machine that is no node. Each change turns a port
 * from open to refused or back.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { NODE_VIEWS_PATH } from '../../apis/stream.ts';
import { measuredRun } from '../measure/process.ts';
import { trialInput } from './trial.ts';

export interface ClusterTrial {
  readonly apiServer: { readonly url: string; readonly caFile: string; readonly token: string };
  /** Its stream to one of the nodes is listened to as well. */
  readonly controller: {
    readonly url: string;
    readonly caFile: string;
    readonly token: string;
    readonly node: string;
  };
  /** Starts with `kubectl apply --server-side -f`. */
  readonly kubectl: readonly string[];
  /** Addresses of the nodes. */
  readonly nodes: readonly string[];
  /** The policy, and files that make its port open or refused. */
  readonly policy: {
    readonly path: string;
    readonly port: number;
    readonly files: Readonly<Record<Verdict, string>>;
  };
  /** A pod that a rule lets in, here and elsewhere. */
  readonly pod: {
    readonly path: string;
    readonly port: number;
    readonly here: string;
    readonly there: string;
  };
  readonly changes: number;
}

export type Verdict = 'open' | 'refused';

/** Milliseconds, but for the bytes; a value for each change. */
export interface ClusterTrialResult {
  /** What kubectl took. */
  readonly kubectl: number[];
  /** From kubectl's end until all nodes enforce it. */
  readonly applied: number[];
  /**
   * The same change without kubectl, from the API server's answer: until the node is told, and
   * until all enforce it.
   */
  readonly told: number[];
  readonly enforced: number[];
  /** A pod gets its address here: from the API server's answer, again. */
  readonly podTold: number[];
  readonly podEnforced: number[];
  /**
   * To one node for that: lines of the stream, and what TCP carried of it (TLS and chunks
   * included).
   */
  readonly bytes: number[];
  readonly tcpBytes: number[];
}

/** Between two looks. */
const RESOLUTION = 1;
const LIMIT = 20_000;

const input = trialInput<ClusterTrial>();
const { nodes, policy, pod, changes } = input;
const api = await apiClient();
const stream = await listenToController();
const result: ClusterTrialResult = {
  kubectl: [],
  applied: [],
  told: [],
  enforced: [],
  podTold: [],
  podEnforced: [],
  bytes: [],
  tcpBytes: [],
};

// kubectl reads the API's description once, and keeps it.
await apply('open');
await until(policy.port, 'open');
for (let i = 0; i < changes; i++) {
  const wanted = verdictOf(i);
  const before = performance.now();
  await apply(wanted);
  const start = performance.now();
  await until(policy.port, wanted);
  result.applied.push(performance.now() - start);
  result.kubectl.push(start - before);
  await apart(i);
}
for (let i = 0; i < changes; i++) {
  const wanted = verdictOf(i);
  const body = JSON.parse(await readFile(policy.files[wanted], 'utf8')) as { spec: object };
  const { told, enforced } = await patched(policy.path, { spec: body.spec }, policy.port, wanted);
  result.told.push(told);
  result.enforced.push(enforced);
  await apart(i);
}
await movePod(pod.there, 'refused');
for (let i = 0; i < changes; i++) {
  await apart(i);
  const before = { lines: stream.bytes(), tcp: await stream.tcpBytes() };
  const { told, enforced } = await movePod(pod.here, 'open');
  result.podTold.push(told);
  result.podEnforced.push(enforced);
  // A sign of life between the two counts too: the median does not.
  result.bytes.push(stream.bytes() - before.lines);
  result.tcpBytes.push((await stream.tcpBytes()) - before.tcp);
  await apart(i);
  await movePod(pod.there, 'refused');
}
stream.close();
api.close();
process.stdout.write(`${JSON.stringify(result)}\n`);

function verdictOf(nth: number): Verdict {
  return nth % 2 === 0 ? 'refused' : 'open';
}

/** Not in step with anything that happens at intervals. */
function apart(nth: number): Promise<void> {
  return pause(150 + ((nth * 137) % 200));
}

async function apply(wanted: Verdict): Promise<void> {
  const [command = '', ...rest] = [...input.kubectl, policy.files[wanted]];
  const child = spawn(command, rest, { stdio: ['ignore', 'ignore', 'pipe'] });
  const said = text(child.stderr);
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`kubectl: ${await said}`);
}

function movePod(address: string, wanted: Verdict) {
  const status = { phase: 'Running', podIP: address, podIPs: [{ ip: address }] };
  return patched(`${pod.path}/status`, { status }, pod.port, wanted);
}

/** Milliseconds from the API server's answer. What came before the answer did counts as 0. */
async function patched(path: string, body: object, port: number, wanted: Verdict) {
  const batch = stream.nextBatch();
  await api.patch(path, body);
  const start = performance.now();
  const [toldAt] = await Promise.all([batch, until(port, wanted)]);
  return { told: Math.max(0, toldAt - start), enforced: performance.now() - start };
}

/** Until every node answers so. */
async function until(port: number, wanted: Verdict): Promise<void> {
  const end = performance.now() + LIMIT;
  await Promise.all(
    nodes.map(async (address) => {
      while ((await look(address, port)) !== wanted) {
        if (performance.now() > end) throw new Error(`port ${port} of ${address} is not ${wanted}`);
        await pause(RESOLUTION);
      }
    }),
  );
}

/** A new connection, cut at once. */
function look(host: string, port: number): Promise<Verdict | null> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port });
    socket.once('connect', () => {
      socket.resetAndDestroy();
      resolve('open');
    });
    socket.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ECONNREFUSED') resolve('refused');
      else if (error.code === 'ECONNRESET') resolve(null);
      else reject(error);
    });
  });
}

/** One connection that is kept. */
async function apiClient() {
  const { url, caFile, token } = input.apiServer;
  const agent = new Agent({ keepAlive: true, maxSockets: 1, ca: await readFile(caFile) });
  return {
    async patch(path: string, body: object): Promise<void> {
      const headers = {
        authorization: `Bearer ${token}`,
        'content-type': 'application/merge-patch+json',
        accept: 'application/json',
      };
      const outgoing = request(`${url}${path}`, { method: 'PATCH', agent, headers });
      outgoing.end(JSON.stringify(body));
      const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
      const said = await text(response);
      if (response.statusCode !== 200) throw new Error(`${path}: ${said}`);
    },
    close: () => agent.destroy(),
  };
}

/** What one node is told, as its agent gets it. */
async function listenToController() {
  const { url, caFile, token, node } = input.controller;
  const query = new URLSearchParams({ watch: 'true', fieldSelector: `metadata.name=${node}` });
  const outgoing = request(`${url}${NODE_VIEWS_PATH}?${query}`, {
    agent: new Agent({ ca: await readFile(caFile) }),
    headers: { authorization: `Bearer ${token}` },
  });
  outgoing.end();
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage];
  if (response.statusCode !== 200) throw new Error(`the controller: ${await text(response)}`);
  outgoing.on('error', () => {});
  const { localPort } = response.socket;
  let bytes = 0;
  let told: ((at: number) => void)[] = [];
  let isNews = false;
  response.on('data', (part: Buffer) => {
    bytes += part.length;
  });
  const lines = createInterface({ input: response });
  const first = Promise.withResolvers<void>();
  lines.on('line', (line) => {
    const at = performance.now();
    const { type } = JSON.parse(line) as { type: string };
    if (type !== 'bookmark') {
      isNews = true;
      return;
    }
    first.resolve();
    // A bookmark alone is a sign of life.
    if (!isNews) return;
    isNews = false;
    for (const tell of told) tell(at);
    told = [];
  });
  await first.promise;
  return {
    /** When the next changes are here; by the clock of performance.now(). */
    nextBatch: () => new Promise<number>((resolve) => void told.push(resolve)),
    bytes: () => bytes,
    /** ss(8): what TCP took in on this connection. */
    async tcpBytes(): Promise<number> {
      const { stdout } = await measuredRun(['ss', '-tinH', `sport = :${localPort}`]);
      return Number(/bytes_received:(\d+)/.exec(stdout)?.[1]);
    },
    close: () => void response.destroy(),
  };
}
