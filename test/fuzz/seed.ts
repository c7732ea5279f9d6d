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
          enableLogging: false,
          from: [
            { ipBlock: { cidr: '10.0.0.0/8', except: ['10.1.0.0/16', '10.2.0.0/16'] } },
            { nodeSelector: {} },
            {
              podSelector: { matchExpressions: [{ key: 'a', operator: 'In', values: ['b'] }] },
              namespaceSelector: { matchExpressions: [{ key: 'a', operator: 'Exists' }] },
              scope: 'Cluster',
            },
            { serviceAccount: { name: 'a', namespace: 'b' } },
          ],
          ports: [{ protocol: 'UDP', port: 1, endPort: 9, sourcePort: 2, sourceEndPort: 8 }],
          protocols: [
            { icmp: { icmpType: 8, icmpCode: 0 } },
            { icmpv6: {} },
            { igmp: { igmpType: 17, groupAddress: '224.0.0.1' } },
          ],
        },
        { action: 'Drop' },
      ],
      egress: [{ action: 'Reject', to: [{ ipBlock: { cidr: '2001:db8::/32' } }], toServices: [] }],
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
    ],
  },
  { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'd', labels: {} } },
];
