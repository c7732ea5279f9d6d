/**
 * Memory that the kernel keeps for what a command made in it, by a memory cgroup of its own:
 * nf_tables accounts its objects to whoever makes them (GFP_KERNEL_ACCOUNT, since Linux 5.17), and
 * they stay accounted when that process is gone. The buckets of large hash tables are not among
 * them. Both versions of cgroups; other work on the machine is not counted.
 */
import { existsSync } from 'node:fs';
import { mkdir, readFile, rmdir } from 'node:fs/promises';
import { join } from 'node:path';

const ROOTS = { unified: '/sys/fs/cgroup', v1: '/sys/fs/cgroup/memory' } as const;

interface MemoryGroup {
  /** The argument array that runs a command in the group. */
  command(argv: readonly string[]): string[];
  /** Of the kernel's own, bytes. */
  kernelBytes(): Promise<number>;
  close(): Promise<void>;
}

let groups = 0;

/** Null where there is no memory controller for us. */
export async function memoryGroup(): Promise<MemoryGroup | null> {
  const isUnified = existsSync(join(ROOTS.unified, 'cgroup.controllers'));
  const folder = join(isUnified ? ROOTS.unified : ROOTS.v1, `nodewall-perf-${process.pid}-${groups++}`);
  const file = join(folder, isUnified ? 'memory.stat' : 'memory.kmem.usage_in_bytes');
  try {
    await mkdir(folder);
  } catch {
    return null;
  }
  if (!existsSync(file)) {
    await rmdir(folder);
    return null;
  }
  return {
    command: (argv) => ['sh', '-c', `echo $$ > ${join(folder, 'cgroup.procs')} && exec "$@"`, 'sh', ...argv],
    async kernelBytes() {
      const text = await readFile(file, 'utf8');
      if (!isUnified) return Number(text);
      // cgroup-v2, memory.stat: bytes of each kind.
      const of = (name: string) => Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1] ?? 0);
      return of('slab') + of('percpu') + of('vmalloc');
    },
    close: () => rmdir(folder),
  };
}
