// Applies and prunes manifests with the code of Flux' kustomize-controller, once and without retries,
// and judges objects by its library for that, kstatus.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/utils"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Usage: flux KUBECONFIG apply|prune FILE…, of files in the order in which they are read.
// flux status: the status of the object that standard input has, as JSON.
func main() {
	var err error
	if os.Args[1] == "status" {
		err = judge()
	} else {
		err = run(os.Args[1], os.Args[2], os.Args[3:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func judge() error {
	text, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	var object unstructured.Unstructured
	if err := object.UnmarshalJSON(text); err != nil {
		return err
	}
	result, err := status.Compute(&object)
	if err == nil {
		fmt.Println(result.Status)
	}
	return err
}

func run(kubeconfig, command string, files []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	kube, err := client.New(config, client.Options{})
	if err != nil {
		return err
	}
	objects, err := read(files)
	if err != nil {
		return err
	}
	owner := ssa.Owner{Field: "kustomize-controller", Group: "kustomize.toolkit.fluxcd.io"}
	manager := ssa.NewResourceManager(kube, nil, owner)
	manager.SetOwnerLabels(objects, "nodewall", "flux-system")
	var changes *ssa.ChangeSet
	if command == "apply" {
		changes, err = manager.ApplyAllStaged(ctx, objects, ssa.DefaultApplyOptions())
	} else {
		changes, err = manager.DeleteAll(ctx, objects, ssa.DefaultDeleteOptions())
	}
	if changes != nil {
		for _, entry := range changes.Entries {
			fmt.Println(entry.String())
		}
	}
	return err
}

func read(files []string) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		objects, err := utils.ReadObjects(file)
		file.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, objects...)
	}
	return all, nil
}
