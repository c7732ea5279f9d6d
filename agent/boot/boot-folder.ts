import { hash } from 'node:crypto';
import { mkdir, readFile, readlink, rename, rm, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import type { NodeState } from '../../apis/compiled.ts';
import type { Log } from '../../lib/process/log.ts';
import {
  makeStateDirectory,
  type SavedFile,
  Saver,
  syncDirectory,
  writeSynced,
} from '../../lib/process/state-file.ts';

/** Files that are loaded at boot, without an agent; by name. */
export type BootFiles = Readonly<Record<string, string>>;

/** In the state directory. */
const FOLDER = 'boot';
/** A symbolic link to the folder that counts. */
const CURRENT = 'current';
const SLOTS = ['a', 'b'] as const;
/** Loaded where the others cannot be, so that it counts also where their digests are wrong. */
export const MINIMAL = 'minimal.nft';
/** As `sha256sum --check` reads it (sha256sum(1)). */
export const DIGESTS = 'SHA256SUMS';

/**
 * Files by which the kernel tells machines apart (drivers/firmware/dmi-id.c; for device trees
 * Documentation/ABI/testing/sysfs-firmware-ofw). Their digests stand beside those of the rules, so
 * that a copy of this disk in another machine is found out. Those that can't be read are left out.
 */
const IDENTITIES = ['/sys/class/dmi/id/product_uuid', '/sys/firmware/devicetree/base/serial-number'] as const;

/**
 * The folder `boot` of a state directory. `current` leads to one set of files and their digests: a
 * write makes the next set beside it, syncs it and exchanges the link, so that a crash leaves the
 * old set or the new one. Files have mode 0600.
 */
export function bootFolder(
  stateDir: string,
  identities: readonly string[] = IDENTITIES,
): Pick<SavedFile<BootFiles>, 'write'> {
  const folder = join(stateDir, FOLDER);
  return {
    async write(files) {
      await makeStateDirectory(stateDir);
      await makeStateDirectory(folder);
      const current = await readlink(join(folder, CURRENT)).catch(() => null);
      const slot = current === SLOTS[0] ? SLOTS[1] : SLOTS[0];
      const next = join(folder, slot);
      await rm(next, { recursive: true, force: true });
      await mkdir(next, { mode: 0o700 });
      const rules = Object.entries(files).filter(([name]) => name !== MINIMAL);
      const digests = [...rules, ...(await readable(identities))].map(digestLine).join('');
      for (const [name, text] of [...Object.entries(files), [DIGESTS, digests] as const])
        await writeSynced(join(next, name), text);
      await syncDirectory(next);
      const link = join(folder, `${CURRENT}.new`);
      await rm(link, { force: true });
      await symlink(slot, link);
      await rename(link, join(folder, CURRENT));
      await syncDirectory(folder);
    },
  };
}

/** The next boot loads nothing. Throws if that cannot be made so. */
export async function removeBootFiles(stateDir: string): Promise<void> {
  // The link first: without it, the rest is not loaded.
  await rm(join(stateDir, FOLDER, CURRENT), { force: true });
  await rm(join(stateDir, FOLDER), { recursive: true, force: true });
}

async function readable(paths: readonly string[]): Promise<(readonly [string, string])[]> {
  const read = paths.map(async (path) => {
    const text = await readFile(path, 'utf8').catch(() => '');
    return text === '' ? [] : [[path, text] as const];
  });
  return (await Promise.all(read)).flat();
}

function digestLine([name, text]: readonly [string, string]): string {
  return `${hash('sha256', text)}  ${name}\n`;
}

/** The least time between two writes (milliseconds): with many members these files are large. */
const WRITE_INTERVAL = 10_000;

interface BootRulesOptions {
  readonly stateDir: string;
  /** Whether files are kept; else those of earlier runs are removed. */
  readonly enabled: boolean;
  readonly log: Log;
}

/** Keeps the files that are loaded at boot equal to the confirmed rules. Failures are logged. */
export class BootRules {
  readonly #saver: Saver<() => BootFiles, BootFiles>;
  readonly #enabled: boolean;
  #inForce: { readonly state: NodeState; readonly files: () => BootFiles } | null = null;
  #confirmed: NodeState | null = null;

  constructor({ stateDir, enabled, log }: BootRulesOptions) {
    this.#enabled = enabled;
    this.#saver = new Saver(
      {
        read: async () => null,
        write: async (files) => {
          if (Object.keys(files).length === 0) await removeBootFiles(stateDir);
          else await bootFolder(stateDir).write(files);
        },
      },
      (files: () => BootFiles) => files(),
      log,
      { interval: WRITE_INTERVAL },
    );
  }

  /**
   * The state is in force, confirmed or not.
   * @param files its rules as files; made when they are written
   */
  inForce(state: NodeState, files: () => BootFiles): void {
    const isNothing = state.rules.length === 0 && state.egress === undefined;
    this.#inForce = { state, files: isNothing || !this.#enabled ? NO_FILES : files };
    if (state === this.#confirmed) this.confirmed(state);
  }

  /** The state is the one that counts from now on. */
  confirmed(state: NodeState): void {
    this.#confirmed = state;
    if (this.#inForce?.state === state) this.#saver.save(this.#inForce.files);
  }

  /** Writes what waits; from then on nothing is written. */
  close(): Promise<void> {
    return this.#saver.close();
  }
}

/** Nothing is loaded. */
const NO_FILES = (): BootFiles => ({});
