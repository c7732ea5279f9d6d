/** How long commands take that are started one after the other, in milliseconds. */
import { spawnSync } from 'node:child_process';
import { answer, trialInput } from './trial.ts';

const { commands, cwd } = trialInput<{
  readonly commands: readonly (readonly string[])[];
  readonly cwd: string;
}>();
const since = performance.now();
for (const [program = '', ...args] of commands) {
  const { status, stderr } = spawnSync(program, args, { cwd, encoding: 'utf8' });
  if (status !== 0) throw new Error(`${program}: status ${status}\n${stderr}`);
}
answer({ milliseconds: performance.now() - since });
