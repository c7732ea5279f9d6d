import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { type Config, DEFAULT_CONFIG } from '../../apis/config.ts';
import { parseConfig } from '../../apis/config-file.ts';
import type { NameTable } from '../../apis/names.ts';
import type { ClusterObjects, Problem } from '../../apis/objects.ts';
import { parseNames } from '../../cli/names.ts';
import { loadManifests } from '../../controller/watch/manifests.ts';
import type { Fence } from '../docs/markdown.ts';
import type { Case } from './case.ts';

/** A case's inputs, read as the command line reads them. */
export interface Inputs {
  readonly objects: ClusterObjects;
  readonly problems: readonly Problem[];
  readonly config: Config;
  readonly names: NameTable;
  /** As they are written, for the oracle. */
  readonly raw: {
    readonly objects: readonly object[];
    readonly config: object;
    readonly names: Readonly<Record<string, readonly string[]>>;
  };
  readonly firstNode: string;
}

export async function readInputs({ file, manifests, config: fence, names }: Case): Promise<Inputs> {
  const directory = await mkdtemp(join(tmpdir(), 'nodewall-case-'));
  try {
    for (const [i, { fence: shown }] of manifests.entries()) {
      // Newlines in front, so that a problem names the line of the Markdown file.
      await writeFile(join(directory, `${i}.yaml`), '\n'.repeat(shown.line) + shown.text);
    }
    const parsed = fence === null ? null : parseConfig('\n'.repeat(fence.line) + fence.text, file);
    if (parsed?.config === null) throw new Error(JSON.stringify(parsed.problems));
    const config = parsed?.config ?? DEFAULT_CONFIG;
    const interfaceGroups = Object.keys(config.interfaceGroups);
    const { objects, problems } = await loadManifests([directory], { interfaceGroups });
    const raw = manifests.flatMap(({ fence: shown }) =>
      parseAllDocuments(shown.text).map((part) => part.toJS() as Raw),
    );
    return {
      objects,
      problems: problems.map((problem) => ({ ...problem, file })),
      config,
      names: parseNames(names?.text ?? '', file),
      raw: { objects: raw, config: fenceValue(fence), names: fenceValue(names) },
      firstNode: raw.find(({ kind }) => kind === 'Node')?.metadata?.name ?? '',
    };
  } finally {
    await rm(directory, { recursive: true });
  }
}

function fenceValue(fence: Fence | null): object & Readonly<Record<string, readonly string[]>> {
  return (fence === null ? null : parseAllDocuments(fence.text)[0]?.toJS()) ?? {};
}

interface Raw {
  readonly kind?: string;
  readonly metadata?: { readonly name?: string };
}
