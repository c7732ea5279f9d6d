import { DATAPLANE_NAMES, type DataplaneName } from '../../apis/config.ts';
import { DIGESTS, MINIMAL } from './boot-folder.ts';

/**
 * The units of systemd that load the saved rules (systemd.unit(5), systemd.service(5)); by file
 * name.
 */
export function bootUnits(stateDir: string): ReadonlyMap<string, string> {
  return new Map(DATAPLANE_NAMES.map((dataplane) => [UNITS[dataplane].file, unitText(dataplane, stateDir)]));
}

/** The target that starts them. */
export const WANTED_BY = 'sysinit.target';

/** A path in a unit may have these characters without quotes. */
export const PLAIN_PATH = /^(?:\/[\w.@+-]+)+$/;

interface BootUnit {
  readonly file: string;
  readonly rules: string;
  readonly commands: readonly string[];
}

const CHECK = `sha256sum --check --strict --quiet ${DIGESTS}`;

/** Commands without a path are found in the directories of systemd.exec(5). */
const UNITS: Readonly<Record<DataplaneName, BootUnit>> = {
  nftables: {
    file: 'nodewall-boot.service',
    rules: 'rules.nft',
    commands: [
      '# In force if the next command finds damaged or foreign files: see boot.onError in the configuration. Fails',
      '# where rules are in force already, which then stay.',
      `ExecStart=-nft --file ${MINIMAL}`,
      `ExecStart=${CHECK}`,
      'ExecStart=nft --file rules.nft',
    ],
  },
  iptables: {
    file: 'nodewall-boot-iptables.service',
    rules: 'rules.v4',
    commands: [
      `ExecStart=${CHECK}`,
      'ExecStart=ipset restore -exist -file rules.ipset',
      'ExecStart=iptables-restore --noflush --wait=5 rules.v4',
      'ExecStart=ip6tables-restore --noflush --wait=5 rules.v6',
    ],
  },
};

function unitText(dataplane: DataplaneName, stateDir: string): string {
  const { rules, commands } = UNITS[dataplane];
  const current = `${stateDir}/boot/current`;
  return `# Made by nodewall boot-unit. Loads the rules that the agent last had in force, before the network is up.
[Unit]
Description=nodewall: the rules from before the reboot (${dataplane})
DefaultDependencies=no
RequiresMountsFor=${stateDir}
ConditionPathExists=${current}/${rules}
# nodewall off
ConditionPathExists=!${stateDir}/off
# These replace all rules of the kernel.
After=nftables.service netfilter-persistent.service iptables.service ip6tables.service ipset.service
After=systemd-modules-load.service systemd-sysctl.service
Wants=network-pre.target
Before=network-pre.target
Conflicts=shutdown.target
Before=shutdown.target

[Service]
Type=oneshot
RemainAfterExit=yes
WorkingDirectory=${current}
${commands.join('\n')}
# Rules stay when the unit stops. nodewall cleanup removes them.

[Install]
WantedBy=${WANTED_BY}
`;
}
