import type { ResetConnection } from '../agent/egress/reset-connections.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { endText } from './egress-who.ts';
import { askAgent, BROKEN } from './flush.ts';
import { loadConfig } from './load.ts';
import { json, print } from './output.ts';
import { userName } from './user-name.ts';

export interface EgressResetOptions {
  readonly policy: string;
  readonly dryRun: boolean;
  readonly stateDir: string;
  readonly config?: string;
  readonly output: 'text' | 'json';
}

/** `nodewall egress reset`: has the agent of this node end the connections of an egress policy. */
export async function egressReset(options: EgressResetOptions): Promise<ExitStatus> {
  const { policy, dryRun: isDryRun, stateDir, output } = options;
  await loadConfig(options.config);
  const request = { isDryRun, by: userName(), node: null, egressPolicy: policy };
  const connections: ResetConnection[] = [];
  for await (const answer of askAgent(stateDir, request)) {
    if (answer.kind === 'error') throw new CommandError(EXIT.invalid, answer.message);
    if (answer.kind === 'reset') {
      if (output === 'json') connections.push(answer.connection);
      else await print(`${connectionText(answer.connection)}\n`);
    }
    if (answer.kind !== 'done') continue;
    const { node, examined, ended, failed, error } = answer;
    const counts = { node, examined, ended, failed };
    if (output === 'json') await print(json({ policy, dryRun: isDryRun, connections, ...counts, error }));
    else
      await print(`${ended} connections of ${policy} on ${node} ${isDryRun ? 'would be' : 'were'} ended.\n`);
    if (error === null) return EXIT.done;
    throw new CommandError(EXIT.refused, `${failed} connections could not be ended: ${error}`);
  }
  throw new CommandError(EXIT.refused, BROKEN);
}

function connectionText({ protocol, src, srcPort, dst, dstPort }: ResetConnection): string {
  const end = (address: string, port: number | null): string => endText(address, port ?? undefined);
  return `${protocol} ${end(src, srcPort)} → ${end(dst, dstPort)}`;
}
