/** Where the kernel suites start: they run by default, and fail where they cannot. */
import { createNamespace } from '../netns/namespace.ts';

/**
 * A mocha suite that needs root and real network namespaces. Where these are missing its tests
 * fail; with NODEWALL_ALLOW_SKIP=1, set by hand, they are skipped and the missing capability is
 * named on standard error.
 */
export function kernelSuite(title: string, body: (this: Mocha.Suite) => void): void {
  describe(title, function () {
    // Two noisy cores: a limit that only a hang reaches.
    this.timeout(180_000);
    before(async function () {
      const missing = await missingCapability();
      if (missing === undefined) return;
      if (process.env.NODEWALL_ALLOW_SKIP !== '1') throw new Error(`kernel tests need ${missing}`);
      process.stderr.write(`skipped: ${title}: needs ${missing}\n`);
      this.skip();
    });
    body.call(this);
  });
}

const TRIALS: readonly (readonly [command: readonly string[], name: string])[] = [
  [['nft', 'list', 'tables'], 'nft and CAP_NET_ADMIN'],
  [['conntrack', '-C'], 'the conntrack command'],
  [['ip', '-V'], 'iproute2'],
  [['cc', '--version'], 'a C compiler'],
];

async function missingCapability(): Promise<string | undefined> {
  if (process.platform !== 'linux') return 'Linux';
  if (process.getuid?.() !== 0) return 'root';
  try {
    const namespace = await createNamespace('trial');
    try {
      for (const [command, name] of TRIALS) {
        const { status } = await namespace.run(command, { anyStatus: true });
        if (status !== 0) return name;
      }
      return undefined;
    } finally {
      await namespace.close();
    }
  } catch (error) {
    return `network namespaces (CAP_SYS_ADMIN): ${String(error)}`;
  }
}
