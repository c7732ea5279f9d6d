/** API paths of the policies whose status the controller writes. */
export const NODEWALL_POLICIES = '/apis/nodewall.io/v1alpha1/clusternetworkpolicies';
export const ANTREA_POLICIES = '/apis/crd.antrea.io/v1beta1/clusternetworkpolicies';
