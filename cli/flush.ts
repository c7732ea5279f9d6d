import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { userInfo } from 'node:os';
import { createInterface } from 'node:readline';
import type { ResetConnection } from '../agent/connections/end-connections.ts';
import type { ConnectionRecord } from '../agent/record/record.ts';
import { toQuery } from '../agent/record/record-filter.ts';
import { agentLock } from '../agent/run/agent-lock.ts';
import { type FlushAnswer, type FlushRequest, flushSocket, requestLine } from '../agent/run/flush-server.ts';
import { readOff } from '../agent/run/off-file.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { lineFor } from './cluster-api.ts';
import type { MachineOptions, Printed } from './command-options.ts';
import { type FlowWords, filterOfWords } from './flow-words.ts';
import { loadConfig } from './load.ts';
import { json, print } from './output.ts';
import { endText, recordText } from './record-text.ts';

interface FlushOptions extends FlowWords, MachineOptions, Printed<'text' | 'json'> {
  readonly node?: string;
  readonly dryRun: boolean;
}

type Done = Extract<FlushAnswer, { kind: 'done' }>;

/** Milliseconds between two messages about the progress. */
const SAY_EVERY = 1_000;

/**
 * `nodewall flush`: has the agent of this node end the established connections that the rules in
 * force deny, or those of them that the words name; with `--dry-run` lists them. Results are
 * printed while they arrive.
 */
export async function flush(options: FlushOptions): Promise<ExitStatus> {
  const query = toQuery(filterOfWords(options));
  await loadConfig(options.config);
  const { dryRun: isDryRun, node = null } = options;
  const only = query.size === 0 ? null : query.toString();
  const request: FlushRequest = { isDryRun, by: userName(), node, only, egressPolicy: null };
  const out = options.output === 'json' ? jsonOutput(isDryRun) : textOutput(isDryRun);
  let sayAt = performance.now() + SAY_EVERY;
  for await (const answer of askAgent(options.stateDir, request)) {
    switch (answer.kind) {
      case 'reset':
        await out.reset(answer.connection);
        break;
      case 'guard':
        break;
      case 'connection':
        await out.connection(answer.record);
        break;
      case 'progress':
        if (performance.now() < sayAt) break;
        sayAt = performance.now() + SAY_EVERY;
        process.stderr.write(`${answer.examined} connections examined, ${answer.ended} ${verb(isDryRun)}\n`);
        break;
      case 'done':
        await out.done(answer);
        if (answer.error === null) return EXIT.done;
        throw new CommandError(EXIT.refused, `not all connections could be ended: ${answer.error}`);
      case 'error':
        throw new CommandError(EXIT.refused, answer.message);
    }
  }
  throw new CommandError(EXIT.refused, BROKEN);
}

/** The agent ended while it answered. */
export const BROKEN = "the agent has ended the command; see the agent's log";

/** Asks the agent of this node; its answers while they come. */
export async function* askAgent(stateDir: string, request: FlushRequest): AsyncGenerator<FlushAnswer> {
  const socket = await openSocket(stateDir, request);
  socket.write(requestLine(request));
  for await (const line of createInterface({ input: socket })) yield JSON.parse(line) as FlushAnswer;
}

async function openSocket(stateDir: string, request: FlushRequest): Promise<Socket> {
  const socket = connect(flushSocket(stateDir));
  try {
    await once(socket, 'connect');
    return socket;
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'EACCES' || code === 'EPERM') {
      throw new CommandError(EXIT.refused, `${message}: this needs root`, { cause: error });
    }
    throw new CommandError(EXIT.invalid, await reasonFor(stateDir, request), { cause: error });
  }
}

/** Why no agent answers. */
async function reasonFor(stateDir: string, { node, egressPolicy }: FlushRequest): Promise<string> {
  const agent = await agentLock(stateDir).holder();
  if (agent === null && node !== null) {
    const command = egressPolicy === null ? 'nodewall flush' : 'nodewall egress reset';
    return `no agent runs here, with the state directory ${stateDir}; connections are ended on ${node} itself, with the same options: ${lineFor(node, command)}`;
  }
  if (agent === null) {
    return `no agent runs here with the state directory ${stateDir}: start the agent (nodewall agent), or give its --state-dir`;
  }
  const why = readOff(stateDir) === null ? 'it is starting, or the feature gate is off' : 'nodewall is off';
  return `the agent (process ${agent}) enforces no rules on this node: ${why}`;
}

interface Output {
  connection(record: ConnectionRecord): Promise<void>;
  /** One that should have left by an egress gateway; they come last. */
  reset(connection: ResetConnection): Promise<void>;
  done(summary: Done): Promise<void>;
}

const verb = (isDryRun: boolean): string => (isDryRun ? 'to be ended' : 'ended');

function textOutput(isDryRun: boolean): Output {
  let resets = 0;
  return {
    connection: (record) => print(`${recordText(record)}\n`),
    async reset(connection) {
      resets++;
      await print(`${resetText(connection)}\n`);
    },
    done: ({ node, examined, ended, failed }) => {
      const without = resets === 0 ? '' : `, ${resets} of them without their egress gateway`;
      const refused = failed === 0 ? '' : `, ${failed} could not be ended`;
      return print(
        `${ended} of ${examined} connections on ${node} ${isDryRun ? 'would be ended' : 'were ended'}${without}${refused}.\n`,
      );
    },
  };
}

/** One document, written while the connections arrive: there may be a million. */
function jsonOutput(isDryRun: boolean): Output {
  let separator = `{"dryRun": ${isDryRun},\n"connections": [\n`;
  let list = 'connections';
  const item = async (value: object): Promise<void> => {
    await print(`${separator}${JSON.stringify(value)}`);
    separator = ',\n';
  };
  return {
    connection: item,
    async reset(connection) {
      if (list === 'connections') {
        const start = separator === ',\n' ? '' : separator;
        separator = `${start}],\n"withoutEgressGateway": [\n`;
        list = 'withoutEgressGateway';
      }
      await item(connection);
    },
    async done({ kind: _, ...summary }) {
      const start = separator === ',\n' ? '' : separator;
      await print(`${start}],\n${JSON.stringify(summary).slice(1)}\n`);
    },
  };
}

interface EgressResetOptions extends MachineOptions, Printed<'text' | 'json'> {
  readonly policy: string;
  readonly dryRun: boolean;
}

/** `nodewall egress reset`: has the agent of this node end the connections of an egress policy. */
export async function egressReset(options: EgressResetOptions): Promise<ExitStatus> {
  const { policy, dryRun: isDryRun, stateDir, output } = options;
  await loadConfig(options.config);
  const request = { isDryRun, by: userName(), node: null, only: null, egressPolicy: policy };
  const connections: ResetConnection[] = [];
  let unsteered = 0;
  for await (const answer of askAgent(stateDir, request)) {
    if (answer.kind === 'error') throw new CommandError(EXIT.invalid, answer.message);
    if (answer.kind === 'reset') {
      if (!answer.connection.steered) unsteered++;
      if (output === 'json') connections.push(answer.connection);
      else await print(`${resetText(answer.connection)}\n`);
    }
    if (answer.kind !== 'done') continue;
    const { node, examined, ended, failed, error } = answer;
    const counts = { node, examined, ended, failed };
    if (output === 'json') await print(json({ policy, dryRun: isDryRun, connections, ...counts, error }));
    else {
      const others = unsteered === 0 ? '' : `, ${unsteered} of them without a gateway`;
      const verb = isDryRun ? 'would be' : 'were';
      await print(`${ended} connections of ${policy} on ${node} ${verb} ended${others}.\n`);
    }
    if (error === null) return EXIT.done;
    throw new CommandError(EXIT.refused, `${failed} connections could not be ended: ${error}`);
  }
  throw new CommandError(EXIT.refused, BROKEN);
}

/** One connection of a pod, as `egress reset` and `flush` list it. */
function resetText({ protocol, src, srcPort, dst, dstPort, steered }: ResetConnection): string {
  const end = (address: string, port: number | null): string => endText(address, port ?? undefined);
  const ends = `${protocol} ${end(src, srcPort)} → ${end(dst, dstPort)}`;
  return steered ? ends : `${ends}  (without its egress gateway)`;
}

/** The name of the user who runs the command. */
export function userName(): string {
  try {
    return userInfo().username;
  } catch {
    // The user id has no entry in the container's passwd file.
    return `user ${process.getuid?.() ?? ''}`.trim();
  }
}
