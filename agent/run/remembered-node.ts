import { type StateFile, stateFile } from '../../lib/process/state-file.ts';
import { savedNode } from './state-store.ts';

/** The Node that this machine was where no --node named one. */
export interface RememberedNode {
  readonly node: string;
  /** The host's name; another than `node`: it was changed, and the old rules stay. */
  readonly host: string;
}

/**
 * Null: this machine was no Node yet. Without the file, the saved state says for which Node it is.
 */
export async function rememberedNode(stateDir: string): Promise<RememberedNode | null> {
  const found = await fileOf(stateDir)
    .read()
    .then((text) => (text === null ? null : (JSON.parse(text) as Partial<RememberedNode> | null)))
    .catch(() => null);
  const { node, host } = found ?? {};
  if (typeof node === 'string' && typeof host === 'string') return { node, host };
  const saved = await savedNode(stateDir);
  return saved === null ? null : { node: saved.node, host: saved.node };
}

export function rememberNode(stateDir: string, { node, host }: RememberedNode): Promise<void> {
  return fileOf(stateDir).write(JSON.stringify({ node, host }));
}

function fileOf(stateDir: string): StateFile {
  return stateFile(stateDir, 'machine.json');
}
