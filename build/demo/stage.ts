/**
 * The set: machines as network namespaces, their listeners and callers, and the real agent on the
 * node.
 */

import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Explanation } from '../../apis/flow.ts';
import { type Namespace, stop } from '../../test/netns/namespace.ts';
import { createTopology } from '../../test/netns/topology.ts';
import { probeProgram } from '../../test/probe/probe.ts';
import { ROOT } from '../programs/folder.ts';
import { type CallAnswer, type CallOutcome, type CallRequest, now } from './caller.ts';
import {
  CLIENTS,
  type DemoConnection,
  demoAddressPlan,
  flowOfConnection,
  listenersOf,
  machineAddress,
  NODE,
  type PlaceName,
} from './connections.ts';

export const FLAGSHIP = 'deploy/examples/flagship';
const POLICY = 'protect-api.yaml';
/**
 * The demo's callers are no pods, and the machine's file of group names is none of its business.
 */
const AGENT_CONFIG = join(ROOT, 'test/netns/agent.yaml');

/**
 * Milliseconds until no answer is silence. Where it is expected, below the second after which Linux
 * sends a SYN again: a connection that is dropped counts one packet.
 */
const SILENCE = 700;
const PATIENCE = 5000;
const AGENT_STOPS_WITHIN = 30_000;

export interface Stage {
  readonly node: Namespace;
  /** One real connection; 5 s for an answer that is expected. */
  call(connection: DemoConnection, expected: CallOutcome): Promise<CallAnswer>;
  /** Tries every 2 ms until one ends so; 'silence' after 5 s. */
  callUntil(connection: DemoConnection, outcome: CallOutcome): Promise<CallAnswer>;
  /** The answer of `nodewall explain` by the policy directory as it is now. */
  explain(connections: readonly DemoConnection[]): Promise<Explanation[]>;
  policy(): Promise<string>;
  /** Saves as an editor does: written beside, renamed. Gives the time at which saving began. */
  savePolicy(text: string): Promise<number>;
  startAgent(): DemoAgent;
  /** `nodewall cleanup` in the node. */
  cleanup(): Promise<void>;
}

export interface DemoAgent {
  isRunning(): boolean;
  log(): string;
  /** SIGTERM, as a service manager does. */
  stop(): Promise<void>;
}

/**
 * Everything made here goes with `undo`; what is still being made when this process ends goes with
 * the process. `nodewall` is the program that is shown.
 */
export async function createStage(nodewall: string, undo: AsyncDisposableStack): Promise<Stage> {
  const probe = await probeProgram();
  const folder = mkdtempSync(join(tmpdir(), 'nodewall-demo-'));
  undo.defer(() => rmSync(folder, { recursive: true, force: true }));
  const manifests = join(folder, 'manifests');
  const stateDir = join(folder, 'state');
  const policyFile = join(manifests, POLICY);
  cpSync(join(ROOT, FLAGSHIP), manifests, { recursive: true });
  const topology = await createTopology(demoAddressPlan());
  undo.defer(() => topology.close());

  const namespaces = new Map<PlaceName, Namespace>([[NODE, topology.node]]);
  for (const [i, name] of CLIENTS.entries()) {
    const namespace = topology.clients[i];
    if (namespace !== undefined) namespaces.set(name, namespace);
  }
  const places = [...namespaces];
  await Promise.all(places.map(([name, namespace]) => listen(namespace, probe, listenersOf(name))));
  const clients = new Map(places.map(([name, namespace]) => [name, createClient(namespace)]));

  async function call(
    connection: DemoConnection,
    patience: number,
    until?: CallOutcome,
  ): Promise<CallAnswer> {
    const { from, to, family, protocol, port } = connection;
    const client = clients.get(from);
    if (client === undefined) throw new Error(`no machine ${from}`);
    const ends = { src: machineAddress(from, family), dst: machineAddress(to, family) };
    return client.call({ protocol, family, ...ends, port, patience, ...(until && { until }) });
  }

  return {
    node: topology.node,
    call: (connection, expected) => call(connection, expected === 'silence' ? SILENCE : PATIENCE),
    callUntil: (connection, outcome) => call(connection, PATIENCE, outcome),
    async explain(connections) {
      const flows = join(folder, 'flows.jsonl');
      await writeFile(flows, connections.map((one) => `${JSON.stringify(flowOfConnection(one))}\n`).join(''));
      const options = ['--manifests', manifests, '--node', NODE, '--flows', flows, '-o', 'json'];
      // It needs no namespace; so it ends with the rest when the demo is interrupted.
      const { stdout } = await topology.node.run([nodewall, 'explain', ...options]);
      return stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line));
    },
    policy: () => readFile(policyFile, 'utf8'),
    async savePolicy(text) {
      const fresh = join(folder, 'fresh.yaml');
      const start = now();
      await writeFile(fresh, text);
      await rename(fresh, policyFile);
      return start;
    },
    startAgent() {
      const options = ['--manifests', manifests, '--node', NODE, '--state-dir', stateDir];
      options.push('--config', AGENT_CONFIG);
      const child = topology.node.spawn([nodewall, 'agent', ...options, '--log-format', 'text']);
      const log: string[] = [];
      child.stdout.on('data', (part) => log.push(String(part)));
      child.stderr.on('data', (part) => log.push(String(part)));
      return {
        isRunning: () => child.exitCode === null && child.signalCode === null,
        log: () => log.join(''),
        stop: () => stopWithin(child, AGENT_STOPS_WITHIN),
      };
    },
    cleanup: async () =>
      void (await topology.node.run([
        nodewall,
        'cleanup',
        '--state-dir',
        stateDir,
        '--config',
        AGENT_CONFIG,
      ])),
  };
}

/** Waits until it listens. */
async function listen(namespace: Namespace, probe: string, listeners: readonly string[]): Promise<void> {
  if (listeners.length === 0) return;
  const child = namespace.spawn([probe, 'listen', ...listeners]);
  const lines = createInterface({ input: child.stdout });
  const ended = once(child, 'exit').then(() => {
    throw new Error(`cannot listen on ${listeners.join(' ')}: ${String(child.stderr.read() ?? '')}`);
  });
  // Its end is an error only until it is ready.
  ended.catch(() => {});
  await Promise.race([once(lines, 'line'), ended]);
}

async function stopWithin(child: ChildProcess, milliseconds: number): Promise<void> {
  const timer = setTimeout(() => child.kill('SIGKILL'), milliseconds);
  await stop(child, 'SIGTERM');
  clearTimeout(timer);
  if (child.signalCode === 'SIGKILL') throw new Error(`the agent did not stop within ${milliseconds} ms`);
}

/** The demo's end of a caller (caller.ts) in a namespace. */
interface Client {
  /** Never rejects: where the caller is gone, the outcome says so. */
  call(request: Omit<CallRequest, 'id'>): Promise<CallAnswer>;
}

function createClient(namespace: Namespace): Client {
  const child = namespace.spawn([process.execPath, join(import.meta.dirname, 'caller.ts')]);
  const waiting = new Map<number, (answer: CallAnswer) => void>();
  const errors: string[] = [];
  let last = 0;
  let ended = false;
  const gone = (id: number): CallAnswer => ({
    id,
    outcome: `failed: the caller ended. ${errors.join('').slice(0, 300)}`,
    at: 0,
    tries: 0,
  });

  createInterface({ input: child.stdout }).on('line', (line) => {
    const answer: CallAnswer = JSON.parse(line);
    waiting.get(answer.id)?.(answer);
    waiting.delete(answer.id);
  });
  child.stderr.on('data', (part) => errors.push(String(part)));
  child.on('close', () => {
    ended = true;
    for (const [id, resolve] of waiting) resolve(gone(id));
  });

  return {
    call(request) {
      const id = ++last;
      if (ended) return Promise.resolve(gone(id));
      return new Promise((resolve) => {
        waiting.set(id, resolve);
        child.stdin.write(`${JSON.stringify({ id, ...request })}\n`);
      });
    },
  };
}
