import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { copyFile, glob, mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { until } from '../../test/kernel/until.ts';
import { DIE_WITH_PARENT } from '../../test/netns/namespace.ts';
import { cached } from '../programs/cache.ts';
import { output, run } from '../programs/command.ts';
import { scratchFolder } from '../programs/folder.ts';
import { containerdConfiguration } from './containerd.ts';
import type { Programs } from './programs.ts';

/** An older one takes a gigabyte, and is of sources that have changed since. */
const KEPT_DAYS = 1;

/**
 * A containerd root with these images in it, made once: importing takes each node some 20 s.
 * `archives` are of the cache, so a path stands for its content.
 */
export async function imageTemplate(programs: Programs, archives: readonly string[]): Promise<string> {
  const key = createHash('sha256').update(JSON.stringify([programs.containerd, archives]));
  return cached(
    'template',
    key.digest('hex').slice(0, 16),
    async (fresh) => {
      process.stderr.write('realcluster: importing the images\n');
      const scratch = await scratchFolder('nodewall-template-');
      try {
        await importAll(programs, archives, fresh, scratch.path);
      } finally {
        await scratch.remove();
      }
    },
    KEPT_DAYS,
  );
}

async function importAll(
  programs: Programs,
  archives: readonly string[],
  root: string,
  scratch: string,
): Promise<void> {
  const state = join(scratch, 'state');
  const file = join(scratch, 'config.toml');
  const runc = join(programs.debian, 'usr/sbin/runc');
  await mkdir(state);
  await writeFile(file, containerdConfiguration({ root, state, data: scratch, runc }));
  const bin = programs.containerd;
  const env = { ...process.env, PATH: `${bin}:${process.env.PATH}` };
  // Namespaces of its own, so that no mount outlives it.
  const unshare = ['unshare', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc'];
  const argv = [...DIE_WITH_PARENT, ...unshare, join(bin, 'containerd'), '--config', file];
  const containerd = spawn('setpriv', argv, { env, stdio: 'ignore' });
  const ended = once(containerd, 'exit');
  const ctr = [join(bin, 'ctr'), '--address', join(state, 'containerd.sock'), '--namespace', 'k8s.io'];
  try {
    await until('containerd answers', async () => (await run([...ctr, 'version'])).code === 0);
    for (const archive of archives) await output([...ctr, 'images', 'import', archive]);
  } finally {
    // The program itself, in order: it closes its databases. unshare ends with it.
    await run(['pkill', '--parent', String(containerd.pid), '--signal', 'TERM']);
    await ended;
  }
  await rm(join(root, 'tmpmounts'), { recursive: true, force: true });
}

/**
 * A node's containerd root with the template's images: hard links, so both must be on one file
 * system.
 */
export async function linkTemplate(template: string, root: string): Promise<void> {
  await output(['cp', '--archive', '--link', template, root]);
  // containerd writes to its databases; blobs and committed snapshots are only added and removed.
  for await (const name of glob('*/*.db', { cwd: template })) {
    await rm(join(root, name));
    await copyFile(join(template, name), join(root, name));
  }
}
