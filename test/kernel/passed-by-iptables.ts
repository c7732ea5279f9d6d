/**
 * Rules of the shapes that kube-proxy's iptables mode (pkg/proxy/iptables) and the CNI plugin
 * portmap give them, by either iptables.
 */
import { createHash } from 'node:crypto';
import { commandOf, type Iptables, missingIptables } from './iptables.ts';
import { endpoint, FAMILIES, type Family, type Shape, type Surroundings, type Way } from './passed-by.ts';

export function kubeProxyIptables(iptables: Iptables): Shape {
  return {
    name: `kube-proxy, iptables-${iptables}`,
    kinds: ['nodePort', 'loadBalancer', 'externalIP'],
    missing: () => missingIptables(iptables),
    install: restore(iptables, kubeProxyTables),
  };
}

export function portmapIptables(iptables: Iptables): Shape {
  return {
    name: `portmap, iptables-${iptables}`,
    kinds: ['hostPort', 'hostPortOfAddress'],
    missing: () => missingIptables(iptables),
    install: restore(iptables, portmapTable),
  };
}

type Tables = (family: Family, ways: readonly Way[], surroundings: Surroundings) => string;

function restore(iptables: Iptables, tables: Tables): Shape['install'] {
  return async (node, ways, surroundings) => {
    for (const family of FAMILIES) {
      const own = ways.filter((way) => way.family === family);
      const stdin = tables(family, own, surroundings);
      await node.run([commandOf(iptables, family, '-restore'), '--noflush'], { stdin });
    }
  };
}

/** kube-proxy's default masquerade bit, 14. */
const KUBE_MARK = '0x4000';

function kubeProxyTables(family: Family, ways: readonly Way[], { podCidr }: Surroundings): string {
  const chains = new Set(['KUBE-SERVICES', 'KUBE-NODEPORTS', 'KUBE-POSTROUTING', 'KUBE-MARK-MASQ']);
  const services: string[] = [];
  const nodePorts: string[] = [];
  const rules: string[] = [];
  for (const way of ways) {
    const [svc, ext, sep] = ['SVC', 'EXT', 'SEP'].map((kind) => chainOf(`KUBE-${kind}-`, way, 16));
    for (const chain of [svc, ext, sep]) if (chain !== undefined) chains.add(chain);
    const to = (port: number) => `-p ${way.protocol} -m ${way.protocol} --dport ${port}`;
    const comment = `-m comment --comment "default/${way.name}"`;
    services.push(
      `-A KUBE-SERVICES -d ${way.clusterIP} ${to(way.clusterPort)} ${comment} -j ${svc}`,
      ...(way.kind === 'nodePort'
        ? []
        : [`-A KUBE-SERVICES -d ${way.address} ${to(way.port)} ${comment} -j ${ext}`]),
    );
    if (way.kind === 'nodePort') nodePorts.push(`-A KUBE-NODEPORTS ${to(way.port)} ${comment} -j ${ext}`);
    rules.push(
      ...(way.masqueraded
        ? [`-A ${ext} -j KUBE-MARK-MASQ`]
        : [
            `-A ${ext} -s ${podCidr[family]} -j ${svc}`,
            `-A ${ext} -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ`,
          ]),
      `-A ${ext} -j ${svc}`,
      `-A ${svc} ! -s ${podCidr[family]} -d ${way.clusterIP} ${to(way.clusterPort)} -j KUBE-MARK-MASQ`,
      `-A ${svc} ${comment} -j ${sep}`,
      `-A ${sep} -s ${way.pod} -j KUBE-MARK-MASQ`,
      `-A ${sep} -p ${way.protocol} -m ${way.protocol} -j DNAT --to-destination ${endpoint(way.pod, way.podPort)}`,
    );
  }
  return lines(
    '*nat',
    ...[...chains].map((chain) => `:${chain} - [0:0]`),
    '-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
    '-A OUTPUT -m comment --comment "kubernetes service portals" -j KUBE-SERVICES',
    '-A POSTROUTING -m comment --comment "kubernetes postrouting rules" -j KUBE-POSTROUTING',
    `-A KUBE-POSTROUTING -m mark ! --mark ${KUBE_MARK}/${KUBE_MARK} -j RETURN`,
    `-A KUBE-POSTROUTING -j MARK --xor-mark ${KUBE_MARK}`,
    '-A KUBE-POSTROUTING -j MASQUERADE --random-fully',
    `-A KUBE-MARK-MASQ -j MARK --or-mark ${KUBE_MARK}`,
    ...services,
    // Last, as kube-proxy has it: an external IP may be one of the node's own.
    '-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS',
    ...nodePorts,
    ...rules,
    'COMMIT',
    '*filter',
    ':KUBE-FORWARD - [0:0]',
    '-A FORWARD -j KUBE-FORWARD',
    '-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP',
    `-A KUBE-FORWARD -m mark --mark ${KUBE_MARK}/${KUBE_MARK} -j ACCEPT`,
    '-A KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT',
    'COMMIT',
  );
}

/** portmap's default masquerade bit, 13. */
const CNI_MARK = '0x2000';

/** A chain for each pod; only what the pod itself and the node send is masqueraded. */
function portmapTable(family: Family, ways: readonly Way[], { podCidr }: Surroundings): string {
  const pods = Map.groupBy(ways, ({ pod }) => pod);
  const chains = ['CNI-HOSTPORT-DNAT', 'CNI-HOSTPORT-SETMARK', 'CNI-HOSTPORT-MASQ'];
  const rules: string[] = [];
  for (const own of pods.values()) {
    const [first] = own;
    if (first === undefined) continue;
    const chain = chainOf('CNI-DN-', first, 21);
    chains.push(chain);
    for (const [protocol, list] of Map.groupBy(own, (way) => way.protocol)) {
      const ports = [...new Set(list.map(({ port }) => port))].join(',');
      const comment = '-m comment --comment "dnat name: \\"podnet\\""';
      rules.push(`-A CNI-HOSTPORT-DNAT -p ${protocol} ${comment} -m multiport --dports ${ports} -j ${chain}`);
    }
    for (const { kind, address, protocol, port, pod, podPort } of own) {
      const to = `${kind === 'hostPort' ? '' : `-d ${address} `}-p ${protocol} -m ${protocol} --dport ${port}`;
      rules.push(`-A ${chain} -s ${podCidr[family]} ${to} -j CNI-HOSTPORT-SETMARK`);
      if (family === 4) rules.push(`-A ${chain} -s 127.0.0.1 ${to} -j CNI-HOSTPORT-SETMARK`);
      rules.push(`-A ${chain} ${to} -j DNAT --to-destination ${endpoint(pod, podPort)}`);
    }
  }
  return lines(
    '*nat',
    ...chains.map((chain) => `:${chain} - [0:0]`),
    '-A PREROUTING -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT',
    '-A OUTPUT -m addrtype --dst-type LOCAL -j CNI-HOSTPORT-DNAT',
    '-A POSTROUTING -m comment --comment "CNI portfwd requiring masquerade" -j CNI-HOSTPORT-MASQ',
    `-A CNI-HOSTPORT-SETMARK -j MARK --set-xmark ${CNI_MARK}/${CNI_MARK}`,
    `-A CNI-HOSTPORT-MASQ -m mark --mark ${CNI_MARK}/${CNI_MARK} -j MASQUERADE`,
    ...rules,
    'COMMIT',
  );
}

/** Names of chains are at most 28 characters long. */
function chainOf(prefix: string, { name }: Way, length: number): string {
  return `${prefix}${createHash('sha256').update(name).digest('hex').slice(0, length).toUpperCase()}`;
}

function lines(...all: readonly string[]): string {
  return `${all.join('\n')}\n`;
}
