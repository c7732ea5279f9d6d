// Package errors has the type that flannel compares errors with.
package errors

type TencentCloudSDKError struct{ Message string }

func (e *TencentCloudSDKError) Error() string { return e.Message }
