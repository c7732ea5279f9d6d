import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';
import { type Config, DEFAULT_CONFIG } from '../../apis/config.ts';
import { parseConfig } from '../../apis/config-file.ts';
import type { ClusterObjects, Problem } from '../../apis/objects.ts';
import { loadManifests } from '../../controller/watch/manifests.ts';
import type { Case } from './case.ts';

/** A case's inputs, read as the command line reads them. */
export interface Inputs {
  readonly objects: ClusterObjects;
  readonly problems: readonly Problem[];
  readonly config: Config;
  /** As they are written, for the oracle. */
  readonly raw: { readonly objects: readonly object[]; readonly config: object };
  readonly firstNode: string;
}

export async function readInputs({ file, manifests, config: fence }: Case): Promise<Inputs> {
  const directory = await mkdtemp(join(tmpdir(), 'nodewall-case-'));
  try {
    for (const [i, { fence: shown }] of manifests.entries()) {
      // Newlines in front, so that a problem names the line of the Markdown file.
      await writeFile(join(directory, `${i}.yaml`), '\n'.repeat(shown.line) + shown.text);
    }
    const { objects, problems } = await loadManifests([directory]);
    const parsed = fence === null ? null : parseConfig('\n'.repeat(fence.line) + fence.text, file);
    if (parsed?.config === null) throw new Error(JSON.stringify(parsed.problems));
    const raw = manifests.flatMap(({ fence: shown }) =>
      parseAllDocuments(shown.text).map((part) => part.toJS() as Raw),
    );
    return {
      objects,
      problems: problems.map((problem) => ({ ...problem, file })),
      config: parsed?.config ?? DEFAULT_CONFIG,
      raw: {
        objects: raw,
        config: (fence === null ? null : parseAllDocuments(fence.text)[0]?.toJS()) ?? {},
      },
      firstNode: raw.find(({ kind }) => kind === 'Node')?.metadata?.name ?? '',
    };
  } finally {
    await rm(directory, { recursive: true });
  }
}

interface Raw {
  readonly kind?: string;
  readonly metadata?: { readonly name?: string };
}
