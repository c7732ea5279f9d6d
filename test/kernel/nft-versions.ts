/** nft of other releases of Debian, each with the libraries of its own; nothing is installed. */
import { access } from 'node:fs/promises';
import { join } from 'node:path';
import type { NftRule } from '../../agent/render/ruleset.ts';
import { withDebianSuite } from '../../build/images/debian-suite.ts';
import { cached } from '../../build/programs/cache.ts';
import { unpackDebianPackage } from '../../build/programs/command.ts';
import { isConvertedByNft } from '../fake/byte-order.ts';

export interface NftVersion {
  /** Debian's name of the suite. */
  readonly suite: string;
  /** Of which rules it makes other expressions than the agent, with the same effect. */
  readonly makesOtherwise: (rule: NftRule) => boolean;
  /** Whether it knows the rules of egress gateways. */
  readonly isEgressRead: boolean;
}

export const NFT_VERSIONS: readonly NftVersion[] = [
  { suite: 'bullseye', makesOtherwise: () => false, isEgressRead: false },
  { suite: 'bookworm', makesOtherwise: isConvertedByNft, isEgressRead: true },
  { suite: 'trixie', makesOtherwise: isOneRange, isEgressRead: true },
  {
    suite: 'sid',
    // By `fib … check`.
    makesOtherwise: (rule) => isOneRange(rule) || rule.matches.some(({ match }) => match === 'noRouteBack'),
    isEgressRead: true,
  },
];

/** One expression in place of two comparisons. */
function isOneRange({ matches }: NftRule): boolean {
  return matches.some((match) => {
    if (match.match !== 'port' && match.match !== 'originalPort') return false;
    const [[first, last] = [0, 0], ...more] = match.ranges;
    return more.length === 0 && first !== last;
  });
}

/** What nft needs; a package of the C library has the program that starts it. */
const PACKAGES = [
  ...['nftables', 'libnftables1', 'libnftnl11', 'libmnl0', 'libxtables12', 'libjansson4', 'libgmp10'],
  ...['libedit2', 'libc6', 'libbsd0', 'libmd0', 'libtinfo6'],
];
const LIBRARIES = ['usr/lib/x86_64-linux-gnu', 'lib/x86_64-linux-gnu'];

/** The command; its packages are fetched once, and kept in the cache. */
export async function debianNft(suite: string): Promise<readonly string[]> {
  const root = await cached('nft', suite, (folder) =>
    withDebianSuite({ suite, processor: 'amd64' }, async (apt) => {
      for (const name of PACKAGES) await unpackDebianPackage(name, folder, apt);
    }),
  );
  const folders = LIBRARIES.map((path) => join(root, path));
  const starters = folders.map((path) => join(path, 'ld-linux-x86-64.so.2'));
  const isThere = await Promise.all(
    starters.map((path) =>
      access(path).then(
        () => true,
        () => false,
      ),
    ),
  );
  const starter = starters[isThere.indexOf(true)] ?? '';
  return [starter, '--library-path', folders.join(':'), join(root, 'usr/sbin/nft')];
}
