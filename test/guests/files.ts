/** Files of guests whose processors are of another kind than this machine's. */
import { createHash } from 'node:crypto';
import { copyFile, mkdir, readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { unpackDebian } from '../../build/images/mmdebstrap.ts';
import { arm64Programs } from '../../build/programs/arm64.ts';
import { cached } from '../../build/programs/cache.ts';
import { ROOT } from '../../build/programs/folder.ts';

/** A small Debian, and the programs that suites of the matrix run. */
const PACKAGES = [
  ...['base-files', 'base-passwd', 'bash', 'dash', 'coreutils', 'findutils', 'grep', 'sed', 'tar', 'gzip'],
  ...['hostname', 'libc-bin', 'util-linux', 'diffutils'],
  ...['nftables', 'iptables', 'ipset', 'conntrack', 'iproute2', 'iputils-ping', 'arping', 'iperf3'],
  ...['wireguard-tools', 'mount', 'kmod', 'procps', 'netbase', 'openssl', 'ca-certificates'],
  ...['gcc', 'libc6-dev', 'libnftables1', 'libstdc++6', 'gawk'],
];
/** Links that packages' scripts would make. */
const ALTERNATIVES: Readonly<Record<string, string>> = {
  'usr/bin/awk': 'gawk',
  'usr/bin/cc': 'gcc',
  'usr/sbin/iptables': 'iptables-nft',
  'usr/sbin/iptables-save': 'iptables-nft-save',
  'usr/sbin/iptables-restore': 'iptables-nft-restore',
  'usr/sbin/ip6tables': 'ip6tables-nft',
  'usr/sbin/ip6tables-save': 'ip6tables-nft-save',
  'usr/sbin/ip6tables-restore': 'ip6tables-nft-restore',
};

export interface GuestFiles {
  /** The folder that is the guest's root. */
  readonly root: string;
  /** Folders of this machine that it sees at their paths, each below the files of `over`. */
  readonly shown: readonly { readonly path: string; readonly over?: string }[];
}

/**
 * Debian 12 for arm64 with this checkout, whose Node.js and addon are of that kind. Made once, in
 * some minutes.
 *
 * @param folders of this machine that the guest needs, too
 */
export async function arm64Files(folders: readonly string[]): Promise<GuestFiles> {
  const key = createHash('sha256').update(await readFile(import.meta.filename));
  const root = await cached('guestroot', `arm64-${key.digest('hex').slice(0, 16)}`, async (fresh) => {
    process.stderr.write('guests: fetching Debian 12 for arm64, once\n');
    await unpackDebian(fresh, PACKAGES, ['arm64']);
    for (const [path, to] of Object.entries(ALTERNATIVES)) await symlink(to, join(fresh, path));
    for (const name of ['passwd', 'group'])
      await copyFile(join(fresh, `usr/share/base-passwd/${name}.master`), join(fresh, 'etc', name));
    await mkdir(join(fresh, 'usr/lib/modules'), { recursive: true });
  });
  return { root, shown: [{ path: ROOT, over: await arm64Programs() }, ...folders.map((path) => ({ path }))] };
}
