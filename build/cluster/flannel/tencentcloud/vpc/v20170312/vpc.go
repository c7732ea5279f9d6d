// Package v20170312 stands for the SDK's, which is not to be had: every call fails.
package v20170312

import "errors"

var errAbsent = errors.New("built without the SDK of Tencent Cloud")

type Filter struct {
	Name   *string
	Values []*string
}

type Route struct {
	RouteId              *uint64
	DestinationCidrBlock *string
	GatewayType          *string
	GatewayId            *string
	RouteType            *string
	Enabled              *bool
}

type RouteTable struct {
	RouteTableId *string
	RouteSet     []*Route
}

type RoutesRequest struct {
	RouteTableId *string
	Routes       []*Route
}

type TablesRequest struct{ Filters []*Filter }

type TablesAnswer struct {
	Response *struct{ RouteTableSet []*RouteTable }
}

type Client struct{}

func NewClientWithSecretId(_, _, _ string) (*Client, error) { return nil, errAbsent }

func NewDescribeRouteTablesRequest() *TablesRequest { return &TablesRequest{} }

func NewDeleteRoutesRequest() *RoutesRequest { return &RoutesRequest{} }

func NewCreateRoutesRequest() *RoutesRequest { return &RoutesRequest{} }

func (*Client) DescribeRouteTables(*TablesRequest) (*TablesAnswer, error) { return nil, errAbsent }

func (*Client) DeleteRoutes(*RoutesRequest) (any, error) { return nil, errAbsent }

func (*Client) CreateRoutes(*RoutesRequest) (any, error) { return nil, errAbsent }
