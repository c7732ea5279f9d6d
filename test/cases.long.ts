/**
 * Random cases of unit tests and of fuzz: three times all, where `npm test` tries an eighth
 * (test/properties/runs.ts). Repetitions of the addon and of attacks, of which `npm test` makes
 * fewer.
 */
process.env.NODEWALL_RUNS ??= '3';
await import('./abuse/heavy-changes.test.ts');
await import('./abuse/node-reports.test.ts');
await import('./fuzz/manifests.test.ts');
await import('./generate/forms.test.ts');
await import('./generate/scenario.test.ts');
await import('./fake/real-apply.test.ts');
await import('../agent/apply/netlink/encode.test.ts');
await import('../agent/apply/reconciler.test.ts');
await import('../agent/apply/iptables/reconciler.test.ts');
await import('../agent/egress/render/arrivals.test.ts');
await import('../agent/egress/render/render-egress.test.ts');
await import('../agent/guard/guard-step.test.ts');
await import('../agent/guard/held-step.test.ts');
await import('../agent/receive/fold.test.ts');
await import('../agent/render/index/tree.test.ts');
await import('../agent/nftables-napi/test/leak.test.ts');
await import('../agent/nftables-napi/test/lifecycle.test.ts');
await import('../controller/egress/gateway-index.test.ts');
await import('../controller/kubeapi/lease/election.test.ts');
await import('../controller/watch/cluster/cluster-source.test.ts');
