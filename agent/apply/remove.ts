import { TABLE } from '../render/ruleset.ts';
import { type Kernel, readTable } from './kernel.ts';

/** Removes our table, which holds everything of ours; tells whether it was there. */
export async function removeTable(kernel: Kernel): Promise<boolean> {
  if ((await readTable(kernel)) === null) return false;
  await kernel.commands.run(`delete table ${TABLE.family} ${TABLE.name}\n`);
  return true;
}
