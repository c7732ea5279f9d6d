/** Valid objects that use every field, to be spoilt. */
export const SEED: readonly unknown[] = [
  {
    apiVersion: 'nodewall.io/v1alpha1',
    kind: 'ClusterNetworkPolicy',
    metadata: { name: 'p', labels: { a: 'b' }, uid: 'u', generation: 3 },
    spec: {
      tier: 'mine',
      priority: 5.5,
      mode: 'Enforce',
      traffic: 'Host',
      appliedTo: [{ nodeSelector: { matchLabels: { 'example.com/role': 'x' } } }],
      ingress: [
        {
          name: 'a',
          action: 'Allow',
          enableLogging: true,
          logLabel: 'label',
          from: [
            { ipBlock: { cidr: '10.0.0.0/8', except: ['10.1.0.0/16', '10.2.0.0/16'] } },
            { nodeSelector: {} },
            {
              podSelector: { matchExpressions: [{ key: 'a', operator: 'In', values: ['b'] }] },
              namespaceSelector: { matchExpressions: [{ key: 'a', operator: 'Exists' }] },
              scope: 'Cluster',
            },
            { serviceAccount: { name: 'a', namespace: 'b' } },
            { group: 'all' },
            { interfaceGroup: 'pods' },
            { interfaceGroup: 8 },
          ],
          ports: [{ protocol: 'UDP', port: 1, endPort: 9, sourcePort: 2, sourceEndPort: 8 }],
          protocols: [
            { icmp: { icmpType: 8, icmpCode: 0 } },
            { icmpv6: {} },
            { igmp: { igmpType: 17, groupAddress: '224.0.0.1' } },
          ],
        },
        { action: 'Drop' },
        { action: 'Pass' },
      ],
      egress: [
        { action: 'Reject', to: [{ ipBlock: { cidr: '2001:db8::/32' } }], toServices: [] },
        { action: 'Allow', to: [{ fqdn: '*.Example.com.' }, { fqdn: 'example.com' }, { group: 'nodes' }] },
        { action: 'Allow', toServices: [{ name: 's', namespace: 'd', scope: 'Cluster' }] },
      ],
    },
    status: { phase: 'Realized' },
  },
  { apiVersion: 'nodewall.io/v1alpha1', kind: 'Tier', metadata: { name: 'mine' }, spec: { priority: 9 } },
  {
    apiVersion: 'crd.antrea.io/v1beta1',
    kind: 'ClusterNetworkPolicy',
    metadata: { name: 'q' },
    spec: { priority: 1, ingress: [{ action: 'Allow', appliedTo: [{ nodeSelector: {} }] }] },
  },
  {
    apiVersion: 'nodewall.io/v1alpha1',
    kind: 'ClusterNetworkPolicy',
    metadata: { name: 'r' },
    spec: {
      priority: 7,
      mode: 'Audit',
      traffic: 'NodePort',
      appliedTo: [{ group: 'nodes' }],
      ingress: [{ action: 'Reject', from: [{ group: 'web' }, { group: 'blocks' }] }],
    },
  },
  {
    apiVersion: 'crd.antrea.io/v1beta1',
    kind: 'ClusterNetworkPolicy',
    metadata: { name: 's' },
    spec: { priority: 1, egress: [{ action: 'Drop', appliedTo: [{ group: 'nodes' }] }] },
  },
  {
    apiVersion: 'nodewall.io/v1alpha1',
    kind: 'ClusterGroup',
    metadata: { name: 'nodes' },
    spec: { nodeSelector: { matchLabels: { a: 'b' } } },
  },
  {
    apiVersion: 'crd.antrea.io/v1beta1',
    kind: 'ClusterGroup',
    metadata: { name: 'web' },
    spec: { serviceReference: { name: 's', namespace: 'd' } },
    status: { groupMembersComputed: true },
  },
  {
    apiVersion: 'nodewall.io/v1alpha1',
    kind: 'ClusterGroup',
    metadata: { name: 'blocks' },
    spec: { ipBlocks: [{ cidr: '10.0.0.0/8', except: ['10.1.0.0/16'] }, { cidr: '::/0' }] },
  },
  {
    apiVersion: 'nodewall.io/v1alpha1',
    kind: 'ClusterGroup',
    metadata: { name: 'pods' },
    spec: { podSelector: {}, namespaceSelector: { matchLabels: { a: 'b' } } },
  },
  {
    apiVersion: 'nodewall.io/v1alpha1',
    kind: 'ClusterGroup',
    metadata: { name: 'all' },
    spec: { childGroups: ['nodes', 'web', 'pods', 'blocks'] },
  },
  {
    apiVersion: 'v1',
    kind: 'List',
    items: [
      {
        apiVersion: 'v1',
        kind: 'Node',
        metadata: {
          name: 'n',
          labels: { a: 'b' },
          annotations: { 'nodewall.io/addresses': '10.0.0.1, ::1' },
        },
        status: { addresses: [{ type: 'InternalIP', address: '10.0.0.2' }] },
      },
      {
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name: 'p', namespace: 'd', labels: { a: 'b' } },
        spec: { serviceAccountName: 's', hostNetwork: false },
        status: { phase: 'Running', podIPs: [{ ip: '10.0.0.3' }], podIP: '10.0.0.3' },
      },
      {
        apiVersion: 'v1',
        kind: 'Service',
        metadata: { name: 's', namespace: 'd' },
        spec: {
          clusterIP: '10.0.0.4',
          clusterIPs: ['10.0.0.4', '::2'],
          selector: { a: 'b' },
          ports: [{ port: 80, targetPort: 'http', protocol: 'TCP' }],
        },
      },
      {
        apiVersion: 'discovery.k8s.io/v1',
        kind: 'EndpointSlice',
        metadata: { name: 's-1', namespace: 'd', labels: { 'kubernetes.io/service-name': 's' } },
        addressType: 'IPv4',
        endpoints: [{ addresses: ['10.0.0.5'], conditions: { ready: true } }],
        ports: [{ name: 'http', port: 8080, protocol: 'TCP' }],
      },
    ],
  },
  { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'd', labels: {} } },
];

/** Valid objects of egress gateways that use every field, to be spoilt. */
export const EGRESS_SEED: readonly unknown[] = [
  {
    apiVersion: 'nodewall.io/v1alpha1',
    kind: 'EgressGateway',
    metadata: { name: 'out', uid: 'u', generation: 3 },
    spec: {
      nodeSelector: { matchLabels: { 'node-restriction.kubernetes.io/egress': 'yes' } },
      addresses: {
        pools: [
          { ranges: ['203.0.113.0/28', '203.0.113.40', '203.0.113.50-203.0.113.59'] },
          { ranges: ['2001:db8:f::10-2001:db8:f::1f', '2001:db8:f:1::/126'] },
        ],
      },
      source: 'Floating',
      choice: 'Failover',
      announce: 'None',
      probes: [
        { icmp: { address: '192.0.2.1' } },
        { tcp: { address: '2001:db8::1', port: 443 }, seconds: 10, failures: 2 },
      ],
      failover: { heartbeatMilliseconds: 500, leaseSeconds: 1, failback: true },
      allowedNamespaces: { matchExpressions: [{ key: 'team', operator: 'In', values: ['shop'] }] },
      default: true,
    },
    status: {
      nodes: [{ name: 'gw-1', ready: false, reason: 'probe', tunnel: '192.0.2.11' }],
      slots: [{ name: 'a', node: 'gw-1', epoch: 2, addresses: ['203.0.113.1', '2001:db8:f::10'] }],
      usage: { ipv4: { total: '25', used: 1 } },
    },
  },
  {
    apiVersion: 'nodewall.io/v1alpha1',
    kind: 'EgressGateway',
    metadata: { name: 'spread' },
    spec: {
      nodeSelector: {
        matchExpressions: [{ key: 'node-restriction.kubernetes.io/egress', operator: 'Exists' }],
      },
      source: 'Node',
      interface: 'eth1',
      choice: 'Spread',
      allowedNamespaces: {},
    },
  },
  {
    apiVersion: 'nodewall.io/v1alpha1',
    kind: 'EgressPolicy',
    metadata: { name: 'pay', namespace: 'shop' },
    spec: {
      appliedTo: [{ podSelector: { matchLabels: { app: 'pay' } } }, { podSelector: {} }],
      gateway: 'out',
      to: ['198.51.100.0/24', '2001:db8:9::/48'],
      except: ['198.51.100.128/25'],
      action: 'Gateway',
      address: { allocation: 'Fixed', ipv4: '203.0.113.40', ipv6: '2001:db8:f::11' },
      whenUnavailable: 'Drop',
      priority: 10,
      mode: 'Audit',
    },
    status: { addresses: ['203.0.113.40'] },
  },
  {
    apiVersion: 'nodewall.io/v1alpha1',
    kind: 'ClusterEgressPolicy',
    metadata: { name: 'all' },
    spec: {
      stage: 'Override',
      appliedTo: [
        { podSelector: {}, namespaceSelector: { matchLabels: { a: 'b' } } },
        { namespaceSelector: {} },
        { podSubnets: ['10.244.0.0/16', 'fd00:1::/64'] },
      ],
      address: { allocation: 'Dedicated', count: 2 },
      whenUnavailable: 'Direct',
    },
  },
  {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'ServiceCIDR',
    metadata: { name: 'kubernetes' },
    spec: { cidrs: ['10.96.0.0/12', 'fd00:96::/112'] },
  },
  {
    apiVersion: 'crd.projectcalico.org/v1',
    kind: 'IPPool',
    metadata: { name: 'pods' },
    spec: { cidr: '10.244.0.0/16', disabled: false },
  },
  {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name: 'shop', labels: { team: 'shop' } },
  },
  {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: { name: 'gw-1', uid: 'n', labels: { 'node-restriction.kubernetes.io/egress': 'yes' } },
    spec: { podCIDR: '10.244.1.0/24', podCIDRs: ['10.244.1.0/24', 'fd00:1::/80'] },
    status: { addresses: [{ type: 'InternalIP', address: '192.0.2.11' }] },
  },
  {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'proxy', namespace: 'kube-system' },
    spec: { hostNetwork: true, nodeName: 'gw-1' },
    status: { podIPs: [{ ip: '192.0.2.11' }] },
  },
];

/** Objects of egressgateway, for `nodewall migrate`. */
export const SPIDERNET_SEED: readonly object[] = [
  {
    apiVersion: 'egressgateway.spidernet.io/v1beta1',
    kind: 'EgressGateway',
    metadata: { name: 'theirs' },
    spec: {
      ippools: { ipv4: ['198.51.100.70-198.51.100.79'], ipv6: ['2001:db8:a::70-2001:db8:a::79'] },
      nodeSelector: { selector: { matchLabels: { 'node-restriction.kubernetes.io/egress': 'yes' } } },
    },
  },
  {
    apiVersion: 'egressgateway.spidernet.io/v1beta1',
    kind: 'EgressPolicy',
    metadata: { name: 'theirs', namespace: 'shop' },
    spec: {
      egressGatewayName: 'theirs',
      egressIP: { ipv4: '198.51.100.71' },
      appliedTo: { podSelector: { matchLabels: { app: 'web' } } },
      destSubnet: ['203.0.113.128/25'],
    },
  },
];
