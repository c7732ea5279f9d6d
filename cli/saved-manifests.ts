import { resolve } from 'node:path';
import type { LastValidJson } from '../controller/watch/last-valid-versions.ts';
import type { Log } from '../lib/process/log.ts';
import { Saver, stateFile } from '../lib/process/state-file.ts';
import { memo } from '../lib/sharing/memo.ts';

const MANIFESTS_FILE = 'manifests.json';

interface Options {
  readonly stateDir: string;
  readonly manifests: readonly string[];
  readonly log: Log;
}

/**
 * The last valid version of each object of the manifests, on disk, so that after a restart an
 * invalid file does not remove what was in force.
 */
export function savedManifests({ stateDir, manifests, log }: Options) {
  const origin = JSON.stringify(manifests.map((path) => resolve(path)));
  const textOf = memoryText();
  const file = new Saver<LastValidJson>(
    stateFile(stateDir, MANIFESTS_FILE),
    (memory) => `{"origin":${JSON.stringify(origin)},"memory":${textOf(memory)}}`,
    log,
  );
  return {
    save: (memory: LastValidJson) => file.save(memory),
    /**
     * Null if the versions were saved for other directories: their objects are not earlier versions
     * of these.
     */
    async read(): Promise<unknown> {
      const found = await file.read(
        (text) => JSON.parse(text) as { origin?: string; memory?: unknown } | null,
      );
      return found?.origin === origin ? found.memory : null;
    },
    /** From then on nothing is saved. */
    close: () => file.close(),
  };
}

/** The source of this machine's agent's objects, and the last valid versions of them. */
interface SavedManifests {
  readonly paths: readonly string[];
  /** As fromLastValidJson reads them. */
  readonly lastValid: unknown;
}

/** Null: no agent of this state directory ever read manifests. Throws a StateFileError. */
export async function readSavedManifests(stateDir: string): Promise<SavedManifests | null> {
  const text = await stateFile(stateDir, MANIFESTS_FILE).read();
  if (text === null) return null;
  const { origin, memory }: { readonly origin?: unknown; readonly memory?: unknown } = Object(
    JSON.parse(text),
  );
  if (typeof origin !== 'string') return null;
  return { paths: JSON.parse(origin), lastValid: memory };
}

/**
 * Formats `toMemoryJson` as text, with a cache by object as in snapshotText: an edit formats only
 * the objects that it changed.
 */
function memoryText(): (memory: LastValidJson) => string {
  const textOf = memo((object: object) => JSON.stringify(object));
  return ({ remembered, ...others }) => {
    const items = remembered.map(
      ({ file, object }) => `{"file":${JSON.stringify(file)},"object":${textOf(object)}}`,
    );
    return `{${JSON.stringify(others).slice(1, -1)},"remembered":[${items.join()}]}`;
  };
}
