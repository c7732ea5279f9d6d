import type { ResetConnection } from '../../agent/connections/end-connections.ts';
import { CommandError, EXIT, type ExitStatus } from '../../lib/process/exit.ts';
import { askAgent, BROKEN } from '../flush.ts';
import { loadConfig } from '../load.ts';
import { json, print } from '../output.ts';
import { userName } from '../user-name.ts';
import { resetText } from './reset-text.ts';

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
