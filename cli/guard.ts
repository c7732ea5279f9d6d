import type { GuardAnswer, GuardCommand } from '../agent/run/flush-server.ts';
import { CommandError, EXIT, type ExitStatus } from '../lib/process/exit.ts';
import { askAgent, BROKEN } from './flush.ts';
import { loadConfig } from './load.ts';
import { json, print } from './output.ts';
import { userName } from './user-name.ts';

interface GuardOptions {
  readonly stateDir: string;
  readonly config?: string;
  readonly output: 'text' | 'json';
}

/** `nodewall confirm`: ends the window of the rules that the agent of this node tries. */
export async function confirm(options: GuardOptions): Promise<ExitStatus> {
  const { policies } = await ask(options, { kind: 'confirm' });
  const text =
    policies.length === 0
      ? 'No rules are tried on this node: those in force are confirmed.\n'
      : `Confirmed: ${policies.join(', ')}.\n`;
  await print(options.output === 'json' ? json({ confirmed: policies }) : text);
  return EXIT.done;
}

/** `nodewall retry`: applies policies again that were rolled back on this node. */
export async function retry(policy: string | undefined, options: GuardOptions): Promise<ExitStatus> {
  const { policies } = await ask(options, { kind: 'retry', policy: policy ?? null });
  if (policies.length === 0 && policy !== undefined) {
    throw new CommandError(EXIT.invalid, `policy ${policy} is not held on this node`);
  }
  const text =
    policies.length === 0
      ? 'No policy is held on this node.\n'
      : `Applied again, and tried: ${policies.join(', ')}.\n`;
  await print(options.output === 'json' ? json({ retried: policies }) : text);
  return EXIT.done;
}

async function ask({ stateDir, config }: GuardOptions, guard: GuardCommand): Promise<GuardAnswer> {
  await loadConfig(config);
  const request = { isDryRun: false, by: userName(), node: null, egressPolicy: null, guard };
  for await (const answer of askAgent(stateDir, request)) {
    if (answer.kind === 'guard') return answer;
    if (answer.kind === 'error') throw new CommandError(EXIT.invalid, answer.message);
  }
  throw new CommandError(EXIT.refused, BROKEN);
}
