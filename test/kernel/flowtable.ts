/** A router's flowtable beside nodewall's rules. */
import type { Namespace } from '../netns/namespace.ts';

/** Matches nft's and iptables' message about an expression that the kernel lacks. */
export const LACKING = /No such file or directory|not supported|Couldn't load/i;

/**
 * Takes connections of TCP and UDP that the node forwards between these devices past all hooks but
 * ingress, once they are open; counts in the chain `forward` what goes by the hook. Skips the test
 * where the kernel has no flowtables.
 */
export async function layFlowtable(
  test: Mocha.Context,
  node: Namespace,
  devices: readonly string[],
): Promise<void> {
  const stdin = `table inet fast-path {
    flowtable fast { hook ingress priority 0; devices = { ${devices.join(', ')} }; }
    chain forward {
      type filter hook forward priority filter; policy accept;
      counter
      meta l4proto { tcp, udp } flow add @fast
    }
  }\n`;
  const { status, stderr } = await node.run(['nft', '-f', '-'], { stdin, anyStatus: true });
  if (status === 0) return;
  if (!LACKING.test(stderr)) throw new Error(stderr);
  process.stderr.write('skipped: flowtables: this kernel has none\n');
  test.skip();
}

/** Connections that a flowtable forwards. */
export async function offloaded(node: Namespace): Promise<number> {
  const lists = await Promise.all(
    ['ipv4', 'ipv6'].map((family) => node.run(['conntrack', '-L', '-f', family])),
  );
  return lists.flatMap(({ stdout }) => stdout.match(/\[(?:HW_)?OFFLOAD\]/g) ?? []).length;
}
