import type { NodeFlows } from '../apis/node-flows.ts';
import { CommandError, EXIT } from '../lib/process/exit.ts';
import { readInput } from '../lib/process/option-value.ts';

/**
 * The answers that `nodewall flows -o json` printed: of one node, or of several. Throws a
 * CommandError that names the file.
 */
export async function readSavedFlows(path: string): Promise<NodeFlows[]> {
  const text = await readInput('--flows', path);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new CommandError(EXIT.invalid, `--flows: ${path}: ${(error as Error).message}`, { cause: error });
  }
  const all: readonly unknown[] = Array.isArray(value) ? value : [value];
  return all.map((one) => {
    const { node, flows } = Object(one);
    if (typeof node === 'string' && Array.isArray(flows)) return one as NodeFlows;
    throw new CommandError(
      EXIT.invalid,
      `--flows: ${path}: is not what nodewall flows -o json prints: {"node": …, "flows": […]}, or a list of it`,
    );
  });
}
