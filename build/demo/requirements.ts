import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { createNamespace } from '../../test/netns/namespace.ts';

/** Programs that the demo starts, and the Debian package of each. */
const PROGRAMS: Readonly<Record<string, string>> = {
  nft: 'nftables',
  ip: 'iproute2',
  sysctl: 'procps',
  unshare: 'util-linux',
  nsenter: 'util-linux',
  setpriv: 'util-linux',
  cc: 'gcc',
};

/** The needs of the demo of egress gateways that are missing here; null: none is. */
export async function missingTunnel(): Promise<string | null> {
  const namespace = await createNamespace('trial');
  try {
    const link = ['ip', 'link', 'add', 'trial', 'type', 'vxlan', 'id', '1', 'dstport', '4789'];
    const { status, stderr } = await namespace.run(link, { anyStatus: true });
    return status === 0 ? null : `needs VXLAN in the kernel: run modprobe vxlan; ip says: ${stderr.trim()}`;
  } finally {
    await namespace.close();
  }
}

/** The reason why the demo cannot run here, and the way out; null: it can. */
export async function missingRequirement(path: string): Promise<string | null> {
  if (process.platform !== 'linux') return 'needs Linux: run it there, or in a virtual machine';
  if (process.getuid?.() !== 0) return 'needs root, to make network namespaces: run sudo npm run demo';
  const missing = Object.entries(PROGRAMS).filter(([program]) => !isThere(program, path));
  if (missing.length > 0) {
    const packages = new Set(missing.map(([, name]) => name));
    const programs = missing.map(([program]) => program).join(', ');
    return `needs ${programs}: run apt-get install ${[...packages].join(' ')}`;
  }
  return await missingCapability();
}

function isThere(program: string, path: string): boolean {
  return path.split(delimiter).some((folder) => {
    try {
      accessSync(join(folder, program), constants.X_OK);
      return true;
    } catch {
      // Not in this folder.
      return false;
    }
  });
}

async function missingCapability(): Promise<string | null> {
  try {
    const namespace = await createNamespace('trial');
    try {
      const { status, stderr } = await namespace.run(['nft', 'list', 'tables'], { anyStatus: true });
      if (status === 0) return null;
      return `needs nf_tables in the kernel: run modprobe nf_tables; nft says: ${stderr.trim()}`;
    } finally {
      await namespace.close();
    }
  } catch (error) {
    const why = (error as Error).message.trim();
    return `needs network namespaces (CAP_SYS_ADMIN and CAP_NET_ADMIN; a container must be privileged): ${why}`;
  }
}
