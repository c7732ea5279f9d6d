// Package common has as much of the SDK's as flannel's code for Tencent Cloud compiles with.
package common

func StringPtr(value string) *string { return &value }

func StringPtrs(values []string) []*string {
	pointers := make([]*string, len(values))
	for i := range values {
		pointers[i] = &values[i]
	}
	return pointers
}

func BoolPtr(value bool) *bool { return &value }
