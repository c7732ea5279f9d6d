import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { type Namespace, stop } from '../../test/netns/namespace.ts';
import { NODE_NAME } from '../generate/cluster.ts';
import { memoryOf, NODEWALL, processorTimeOf } from './process.ts';

/** One line of the agent's log; fields as agent/run/agent-log.ts writes them. */
interface LogLine {
  readonly message: string;
  readonly timestamp: string;
  readonly milliseconds?: number;
  readonly rules?: number;
}

export interface MeasuredAgent {
  /** The `enforced` lines so far. */
  enforced(): readonly LogLine[];
  untilEnforced(count: number): Promise<void>;
  memory(): ReturnType<typeof memoryOf>;
  /** Processor time of all its threads so far, seconds. */
  processorTime(): Promise<number>;
  stop(): Promise<void>;
}

/** Milliseconds. */
const STOP_LIMIT = 20_000;

interface AgentPlace {
  readonly namespace: Namespace;
  readonly manifests: string;
  readonly stateDir: string;
  readonly options?: readonly string[];
  /** Path of its configuration; default test/netns/agent.yaml. */
  readonly config?: string;
  readonly env?: NodeJS.ProcessEnv;
}

/** What agents are configured with in test namespaces, as YAML. */
export const AGENT_CONFIG = join(import.meta.dirname, '../../test/netns/agent.yaml');

export function agentCommand(place: Omit<AgentPlace, 'namespace'>): string[] {
  const { manifests, stateDir, options = [], config = AGENT_CONFIG } = place;
  const paths = ['--manifests', manifests, '--state-dir', stateDir];
  return [
    NODEWALL,
    'agent',
    ...paths,
    '--node',
    NODE_NAME,
    '--config',
    config,
    '--log-format',
    'json',
    ...options,
  ];
}

/** `bin/nodewall agent` in a namespace, running on until it is stopped. */
export function startAgent(place: AgentPlace): MeasuredAgent {
  const env = { ...process.env, ...place.env };
  const child: ChildProcessWithoutNullStreams = place.namespace.spawn(agentCommand(place), { env });
  let text = '';
  child.stderr.on('data', (part) => {
    text += String(part);
  });
  child.stdout.resume();
  const enforced = () => logLines(text).filter(({ message }) => message === 'enforced');
  return {
    enforced,
    async untilEnforced(count) {
      const end = performance.now() + 60_000;
      while (enforced().length < count) {
        if (child.exitCode !== null || performance.now() > end)
          throw new Error(`not enforced:\n${text.slice(-3000)}`);
        await pause(20);
      }
    },
    memory: () => memoryOf(child.pid ?? 0),
    processorTime: () => processorTimeOf(child.pid ?? 0),
    async stop() {
      // What is stuck is told, not waited for.
      const timer = setTimeout(() => child.kill('SIGKILL'), STOP_LIMIT);
      await stop(child, 'SIGTERM');
      clearTimeout(timer);
      if (child.signalCode === 'SIGKILL')
        throw new Error(
          `the agent did not end within ${STOP_LIMIT / 1000} s of SIGTERM:\n${text.slice(-3000)}`,
        );
    },
  };
}

/** Complete lines of JSON alone. */
export function logLines(text: string): LogLine[] {
  return text
    .slice(0, text.lastIndexOf('\n') + 1)
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as LogLine);
}
